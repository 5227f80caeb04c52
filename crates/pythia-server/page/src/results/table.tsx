// A table of results. It is sorted and filtered in the browser, and only its visible part is drawn.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { plural } from "../components/number.ts";
import type { Prefixes } from "../rdf/prefixes.ts";
import { numberOf, termText, timeOf, type Term } from "../rdf/term.ts";
import type { Row } from "../server/result-stream.ts";
import { Cell } from "./cell.tsx";

interface Order { column: string; descending: boolean }

const ROW_PIXELS = 34;
/** Number of rows drawn above and below the visible rows. */
const MARGIN = 12;

/** `length` is the length of `rows`, which grows in place while a query runs. */
export function Table(props: {
  columns: string[];
  rows: Row[];
  length: number;
  prefixes: Prefixes;
  dataset: string | null;
}) {
  const { columns, rows, length, prefixes, dataset } = props;
  const [order, setOrder] = useState<Order | null>(null);
  const [wanted, setWanted] = useState("");
  const [shown, setShown] = useState<string | null>(null);
  const arranged = useMemo(() => arrange(rows, columns, order, wanted, prefixes), [rows, length, columns, order, wanted]);
  return (
    <>
      <div class="table-head">
        <label>
          <span class="unseen">Show rows that contain</span>
          <input type="search" placeholder="Filter" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        </label>
        {wanted && <span class="note">{plural(arranged.length, "row")} of {length}</span>}
      </div>
      <Window
        columns={columns} rows={arranged} order={order} setOrder={setOrder} prefixes={prefixes} dataset={dataset}
        show={setShown}
      />
      {shown !== null && <FullText text={shown} close={() => setShown(null)} />}
    </>
  );
}

function Window(props: {
  columns: string[];
  rows: Row[];
  order: Order | null;
  setOrder: (order: Order | null) => void;
  prefixes: Prefixes;
  dataset: string | null;
  show: (text: string) => void;
}) {
  const { columns, rows, order, setOrder, prefixes, dataset, show } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 600 });
  const look = () => {
    const element = scroller.current;
    if (element) setSight({ top: element.scrollTop, height: element.clientHeight });
  };
  useLayoutEffect(look, []);
  const first = Math.max(0, Math.min(rows.length, Math.floor(sight.top / ROW_PIXELS)) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((sight.top + sight.height) / ROW_PIXELS) + MARGIN);
  return (
    <div class="table-scroll" ref={scroller} onScroll={look} tabIndex={0} role="region" aria-label="Table of results">
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            <th class="row-number" scope="col"><span class="unseen">Row</span></th>
            {columns.map((column) => (
              <Heading key={column} column={column} number={numberOf(rows[0]?.[column]) !== null} order={order} setOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Spacer rows={first} columns={columns.length + 1} />
          {rows.slice(first, last).map((row, at) => (
            <tr key={first + at} aria-rowindex={first + at + 2}>
              <td class="row-number numbers">{first + at + 1}</td>
              {columns.map((column) => (
                <td key={column} class={numberOf(row[column]) === null ? undefined : "number"}>
                  <Cell term={row[column]} prefixes={prefixes} dataset={dataset} show={show} />
                </td>
              ))}
            </tr>
          ))}
          <Spacer rows={rows.length - last} columns={columns.length + 1} />
        </tbody>
      </table>
    </div>
  );
}

function Spacer({ rows, columns }: { rows: number; columns: number }) {
  if (rows <= 0) return null;
  return <tr class="spacer" aria-hidden="true"><td colSpan={columns} style={{ height: `${rows * ROW_PIXELS}px` }} /></tr>;
}

function Heading(props: { column: string; number: boolean; order: Order | null; setOrder: (order: Order | null) => void }) {
  const { column, number, order, setOrder } = props;
  const own = order?.column === column ? order : null;
  const next = !own ? { column, descending: false } : own.descending ? null : { column, descending: true };
  return (
    <th scope="col" class={number ? "number" : undefined} aria-sort={own ? (own.descending ? "descending" : "ascending") : undefined}>
      <button type="button" onClick={() => setOrder(next)}>
        {column}<span class="order" aria-hidden="true">{own ? (own.descending ? "↓" : "↑") : ""}</span>
      </button>
    </th>
  );
}

function FullText({ text, close }: { text: string; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={close} aria-label="Full text">
      <div class="full-text" tabIndex={0} role="region" aria-label="Text">{text}</div>
      <div class="actions"><button type="button" class="main" onClick={() => dialog.current?.close()}>Close</button></div>
    </dialog>
  );
}

function arrange(rows: Row[], columns: string[], order: Order | null, wanted: string, prefixes: Prefixes): Row[] {
  const needle = wanted.trim().toLowerCase();
  const text = (term: Term | undefined) => (term ? `${termText(term, prefixes)} ${term.type === "uri" ? term.value : ""}` : "");
  const found = needle === ""
    ? rows
    : rows.filter((row) => columns.some((column) => text(row[column]).toLowerCase().includes(needle)));
  if (!order) return found === rows ? rows.slice() : found;
  const sign = order.descending ? -1 : 1;
  const keyed = found.map((row) => ({ row, key: sortKey(row[order.column], prefixes) }));
  keyed.sort((a, b) => sign * compare(a.key, b.key));
  return keyed.map(({ row }) => row);
}

type Key = [kind: number, value: number | string];

/** Returns the sort key of a term: unbound first, then numbers, times, and texts. */
function sortKey(term: Term | undefined, prefixes: Prefixes): Key {
  if (!term) return [0, 0];
  const number = numberOf(term);
  if (number !== null) return [1, number];
  const time = timeOf(term);
  return time === null ? [3, termText(term, prefixes)] : [2, time];
}

const collator = new Intl.Collator(undefined, { numeric: true });

function compare([kind, a]: Key, [other, b]: Key): number {
  if (kind !== other) return kind - other;
  return typeof a === "string" ? collator.compare(a, String(b)) : a - Number(b);
}
