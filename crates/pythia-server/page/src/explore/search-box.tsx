// Text field that finds things by name while the user types: ARIA's combobox with a list.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { announce } from "../components/status.ts";
import { plural } from "../components/number.ts";
import { localName } from "../rdf/term.ts";
import { typedIri } from "./path-query.ts";

export interface Option { iri: string; label: string | null; note: string }

const WAIT_MS = 180;

export function SearchBox(props: {
  label: string;
  value: string;
  placeholder?: string;
  /** Returns the options that match a text. It is called for an empty text only with `always`. */
  search: (text: string, signal: AbortSignal) => Promise<Option[]>;
  always?: boolean;
  choose: (iri: string) => void;
}) {
  const { label, value, choose } = props;
  const id = useId();
  const [text, setText] = useState<string | null>(null);
  const [options, setOptions] = useState<Option[]>([]);
  const [active, setActive] = useState(-1);
  const typed = useRef(text);
  typed.current = text;
  const open = text !== null && options.length > 0;

  useEffect(() => {
    if (text === null || (text.trim() === "" && !props.always)) {
      setOptions([]);
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      props.search(text.trim(), abort.signal).then((found) => {
        if (abort.signal.aborted) return;
        setOptions(found);
        setActive(found.length > 0 ? 0 : -1);
        announce(found.length === 0 ? "Nothing found" : plural(found.length, "suggestion"));
      }, () => setOptions([]));
    }, WAIT_MS);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [text]);

  const take = (option: Option | undefined) => {
    const iri = option?.iri ?? typedIri(text ?? "");
    if (iri === null) return;
    setText(null);
    setOptions([]);
    choose(iri);
  };
  const key = (event: KeyboardEvent) => {
    const last = options.length - 1;
    if (event.key === "ArrowDown" && open) setActive(active === last ? 0 : active + 1);
    else if (event.key === "ArrowUp" && open) setActive(active <= 0 ? last : active - 1);
    else if (event.key === "Enter" && text !== null && text.trim() !== "") take(options[active]);
    else if (event.key === "Escape" && open) setOptions([]);
    else return;
    event.preventDefault();
  };
  const leave = () => {
    if (text?.trim() === "") choose("");
    // A typed IRI is accepted without Enter. Any other text is reset.
    else if (text !== null && typedIri(text)) choose(typedIri(text) ?? "");
    setText(null);
    setOptions([]);
  };
  return (
    <div class="search-box">
      <label for={id}>{label}</label>
      <input
        id={id} type="text" role="combobox" autocomplete="off" autocapitalize="off" spellcheck={false}
        placeholder={props.placeholder} value={text ?? (value ? localName(value) : "")} title={value}
        aria-expanded={open} aria-controls={`${id}-list`} aria-autocomplete="list"
        aria-activedescendant={open && active >= 0 ? `${id}-${active}` : undefined}
        onInput={(event) => setText(event.currentTarget.value)}
        onFocus={(event) => { event.currentTarget.select(); if (props.always) setText(""); }}
        onKeyDown={key} onBlur={leave}
      />
      <ul id={`${id}-list`} role="listbox" aria-label={label} hidden={!open}>
        {options.map((option, at) => (
          <li
            key={option.iri} id={`${id}-${at}`} role="option" aria-selected={at === active}
            onPointerDown={(event) => event.preventDefault()} onClick={() => take(option)}
          >
            <span>{option.label ?? localName(option.iri)}</span>
            <span class="note">{option.note}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
