import { expect, it } from "vitest";
import { safeUrl } from "../src/text/links";

it.each(["https://example.com/a", "http://127.0.0.1:8080/"])("accepts %s as a link", (text) => expect(safeUrl(text)).toBe(text));

it.each([
  "javascript:alert(1)",
  " JaVaScRiPt:alert(1)",
  "java\nscript:alert(1)",
  "data:text/html,<script>",
  "vbscript:x",
  "title|javascript:alert(1)",
  "//example.com",
  "/local",
  "",
])("keeps %j as text", (text) => expect(safeUrl(text)).toBeNull());
