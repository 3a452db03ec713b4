import { FilterField } from "../ui/FilterField";
import { Popover } from "../ui/Popover";
import { useParam } from "../ui/useParam";
import { completions, type Conditions } from "./conditions";
import "./lists.css";

type Props = { readonly label: string; readonly conditions: Conditions; readonly problems: readonly string[] };

/** Filter of a list in the query language, with its conditions and errors. */
export function QueryField({ label, conditions, problems }: Props) {
  const [q] = useParam("q");
  return (
    <span className="query">
      <FilterField label={label} offered={completions(q, conditions)} />
      <Popover title="Conditions">
        {() => (
          <div className="query-help">
            <dl>
              {Object.entries(conditions).map(([key, { example }]) => [
                <dt key={key}>
                  <code>{key}:</code>
                </dt>,
                <dd key={`${key} example`}>
                  <code>{example}</code>
                </dd>,
              ])}
            </dl>
            <p className="quiet">Other words are parts of names. A comma separates alternatives.</p>
          </div>
        )}
      </Popover>
      <span className="status bad" role="status">
        {problems.join(". ")}
      </span>
    </span>
  );
}
