import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "src/api/generated.ts", "src/api/inputs.ts", "src/api/kinds.ts", "src/api/secretSources.ts"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js", "scripts/*.js"] } } },
    plugins: { "react-hooks": hooks },
    rules: {
      ...hooks.configs.recommended.rules,
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      // Untrusted content is always rendered as text.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "show it as text" },
      ],
    },
  },
  // Warns only about the React compiler, which this project does not use.
  { rules: { "react-hooks/incompatible-library": "off" } },
  { files: ["eslint.config.js", "scripts/*.js"], ...tseslint.configs.disableTypeChecked },
);
