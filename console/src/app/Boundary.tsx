import { Component, type ReactNode } from "react";
import "../ui/problem.css";

type Props = { readonly where: string; readonly children: ReactNode };

/** Shows an error in place of a page that throws; navigation resets it. */
export class Boundary extends Component<Props, { readonly failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override componentDidUpdate(before: Props) {
    if (this.state.failed && before.where !== this.props.where) this.setState({ failed: false });
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <div className="problem" role="alert">
        <strong>This page failed to load.</strong>
        The control plane may be unavailable, or it was upgraded since this page was loaded.
        <p>
          <button type="button" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      </div>
    );
  }
}
