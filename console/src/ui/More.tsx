import { useEffect, useRef } from "react";

/** Loads the next page when it becomes visible; also a button for keyboard users. */
export function More({ onMore }: { readonly onMore: () => void }) {
  const mark = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (mark.current === null) return undefined;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting === true && onMore(), { rootMargin: "400px" });
    observer.observe(mark.current);
    return () => observer.disconnect();
  }, [onMore]);
  return (
    <button ref={mark} type="button" className="more" onClick={onMore}>
      Load more
    </button>
  );
}
