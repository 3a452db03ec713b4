import { configure } from "@testing-library/react";

// Tests wait for conditions; a busy machine needs more time.
configure({ asyncUtilTimeout: 15_000 });

// jsdom knows no media queries: no page is dark, and none is being printed.
globalThis.matchMedia = (media: string) => Object.assign(new EventTarget(), { matches: false, media }) as MediaQueryList;
