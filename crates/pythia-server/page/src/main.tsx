import { render } from "preact";
import "./style/base.css";
import "./style/shell.css";
import "./style/query.css";
import "./style/results.css";
import "./style/graph.css";
import { App } from "./app.tsx";

const root = document.getElementById("app");
if (root) render(<App />, root);
