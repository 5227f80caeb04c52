import { useState } from "preact/hooks";
import { announce } from "./status.ts";

/** A button that copies text to the clipboard and announces it. */
export function CopyButton(props: { text: () => string; label: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await write(props.text());
    announce("Copied");
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <button type="button" class="quiet" onClick={copy}>{done ? "Copied" : props.label}</button>;
}

async function write(text: string): Promise<void> {
  if (navigator.clipboard) return await navigator.clipboard.writeText(text);
  // Without TLS, only the clipboard command for a selection is available.
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
