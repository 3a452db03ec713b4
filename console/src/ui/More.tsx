import { useEffect, useRef } from "react";

/** Asks for the next page when it comes into sight; a button for who has no pointer. */
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
      More
    </button>
  );
}
