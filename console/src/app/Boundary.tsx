import { Component, type ReactNode } from "react";
import "../ui/problem.css";

type Props = { readonly where: string; readonly children: ReactNode };

/** Keeps the frame where a page cannot be shown; another page is shown again. */
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
        <strong>This page cannot be shown.</strong>
        The control plane may be away, or a newer version than this page.
        <p>
          <button type="button" onClick={() => location.reload()}>
            Load it anew
          </button>
        </p>
      </div>
    );
  }
}
