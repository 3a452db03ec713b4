import { configure } from "@testing-library/react";

// Tests wait for conditions; a busy machine needs more time.
configure({ asyncUtilTimeout: 15_000 });
