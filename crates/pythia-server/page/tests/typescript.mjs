// Lets Node run the TypeScript of the page and its tests: node --import ./tests/typescript.mjs …

import { register } from "node:module";

register("./typescript-hooks.mjs", import.meta.url);
