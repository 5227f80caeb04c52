// A row of tabs as in ARIA's authoring practices: arrow keys move between tabs, and the row is one tab stop.

import type { ComponentChildren } from "preact";

export interface Tab<K extends string> { key: K; label: ComponentChildren }

export function TabList<K extends string>(props: {
  label: string;
  tabs: Tab<K>[];
  chosen: K;
  panel: string;
  choose: (key: K) => void;
}) {
  const move = (event: KeyboardEvent) => {
    const at = props.tabs.findIndex((tab) => tab.key === props.chosen);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: props.tabs.length - 1 }[event.key];
    const tab = to === undefined ? undefined : props.tabs.at(to % props.tabs.length);
    if (!tab) return;
    event.preventDefault();
    props.choose(tab.key);
    const list = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => list.querySelector<HTMLElement>('[aria-selected="true"]')?.focus());
  };
  return (
    <div class="tabs" role="tablist" aria-label={props.label} onKeyDown={move}>
      {props.tabs.map(({ key, label }) => (
        <button
          key={key} type="button" role="tab" id={`${props.panel}-${key}`}
          aria-selected={key === props.chosen} aria-controls={props.panel}
          tabIndex={key === props.chosen ? 0 : -1}
          onClick={() => props.choose(key)}
        >{label}</button>
      ))}
    </div>
  );
}

export function TabPanel(props: { panel: string; chosen: string; children: ComponentChildren }) {
  return (
    <div class="panel" role="tabpanel" id={props.panel} aria-labelledby={`${props.panel}-${props.chosen}`}>
      {props.children}
    </div>
  );
}
