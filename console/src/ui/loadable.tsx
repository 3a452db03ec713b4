// Components whose scripts load on their first use, or before it.
import { lazy, useState, type ComponentType } from "react";

export type Loadable<Props> = ComponentType<Props> & {
  /** Loads the scripts; the next first render shows the component without a fallback. */
  readonly preload: () => Promise<void>;
};

/**
 * Component that is loaded on its first use. React shows the fallback of a lazy component for 300 ms at least, even if
 * its scripts are there, so a loaded component is rendered as it is.
 */
export function loadable<Props extends object, Name extends string>(load: () => Promise<Record<Name, ComponentType<Props>>>, name: Name): Loadable<Props> {
  let loaded: ComponentType<Props> | undefined;
  const start = async () => {
    loaded ??= (await load())[name];
    return { default: loaded };
  };
  const Later: ComponentType<Props> = lazy(start);
  function Loading(props: Props) {
    // A component stays the same one while it is mounted, and so keeps its state.
    const [Shown] = useState(() => loaded ?? Later);
    return <Shown {...props} />;
  }
  return Object.assign(Loading, {
    // The first use loads the scripts again, and shows why they do not come.
    preload: () =>
      start().then(
        () => undefined,
        () => undefined,
      ),
  });
}
