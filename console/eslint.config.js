import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "src/api/generated.ts", "src/api/inputs.ts"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js", "scripts/*.js"] } } },
    plugins: { "react-hooks": hooks },
    rules: {
      ...hooks.configs.recommended.rules,
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      // One way to show what a cluster or a person wrote: as text.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "show it as text" },
      ],
    },
  },
  // Says only that the compiler, which is not used here, would leave a component alone.
  { rules: { "react-hooks/incompatible-library": "off" } },
  { files: ["eslint.config.js", "scripts/*.js"], ...tseslint.configs.disableTypeChecked },
);
