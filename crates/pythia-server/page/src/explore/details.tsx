// Details of the chosen node: its literals, and its neighbours by predicate.

import { CopyButton } from "../components/copy.tsx";
import { count } from "../components/number.ts";
import { Prefixes } from "../rdf/prefixes.ts";
import { iri as named, literalNote, localName, RDF_TYPE, termKey, termName } from "../rdf/term.ts";
import type { Group, Neighbour } from "../server/explore.ts";
import {
  add, choices, choose, chosen, collapse, details, graph, more, open, pin, remove, unchoose, visit, type Details as Around,
} from "./state.ts";

const prefixes = Prefixes.of("");

export function Details() {
  const key = chosen.value;
  const node = key === null ? undefined : graph.value.nodes.get(key);
  if (key === null || !node) return null;
  const found = details.value;
  const iri = node.term.type === "uri" ? node.term.value : null;
  return (
    <aside class="details" aria-label="Details">
      <div class="details-head">
        <h2>{found?.label ?? node.label ?? termName(node.term)}</h2>
        <button type="button" class="quiet icon" aria-label="Close details" onClick={unchoose}>×</button>
      </div>
      {iri !== null && <p class="iri"><code>{iri}</code> <CopyButton label="Copy" text={() => iri} /></p>}
      <div class="node-actions" role="group" aria-label="Node">
        {node.term.type !== "literal" && <button type="button" onClick={() => void open(key)}>Expand</button>}
        <button type="button" onClick={() => collapse(key)}>Collapse</button>
        <button type="button" aria-pressed={node.pinned} onClick={() => pin(key, !node.pinned)}>Pin</button>
        <button type="button" onClick={() => remove(key)}>Remove</button>
        {iri !== null && <button type="button" onClick={() => { choices.value = { ...choices.value, from: iri }; }}>From here</button>}
        {iri !== null && <button type="button" onClick={() => { choices.value = { ...choices.value, to: iri }; }}>To here</button>}
      </div>
      {node.term.type !== "literal" && !found && <p class="note">Loading…</p>}
      {found && <Types types={found.types} />}
      {found && groupsInOrder(found).map((group) => (
        <GroupView key={`${group.direction} ${group.predicate}`} of={found} node={key} group={group} />
      ))}
    </aside>
  );
}

function Types({ types }: { types: string[] }) {
  const shown = types.slice(0, 4);
  if (shown.length === 0) return null;
  return (
    <ul class="chips types" aria-label="Types">
      {shown.map((type) => <li key={type}><button type="button" title={type} onClick={() => void visit(named(type))}>{localName(type)}</button></li>)}
      {types.length > shown.length && <li class="note">+{types.length - shown.length}</li>}
    </ul>
  );
}

function GroupView({ of, node, group }: { of: Around; node: string; group: Group }) {
  const things = group.items.filter(({ term }) => term.type !== "literal");
  const name = localName(group.predicate);
  return (
    <section class="group">
      <h3 title={group.predicate}>
        <span class="group-name">{group.direction === "in" ? <><span aria-label="inverse of">←</span> {name}</> : name}</span>
        <span class="note numbers">{count(group.count)}</span>
        {things.length > 0 && (
          <button type="button" class="quiet" aria-label={`Draw neighbours of ${name}`} onClick={() => add(node, group)}>Draw</button>
        )}
      </h3>
      <ul>
        {group.items.map((item) => <Item key={termKey(item.term)} item={item} node={node} group={group} />)}
      </ul>
      {group.more && (
        <button type="button" class="quiet" onClick={() => void more(of, group)}>
          More <span class="note numbers">{count(group.items.length)} of {count(group.count)}</span>
        </button>
      )}
    </section>
  );
}

function Item({ item, node, group }: { item: Neighbour; node: string; group: Group }) {
  const { term, label } = item;
  if (term.type === "literal") {
    const note = literalNote(term, prefixes);
    return <li class="literal">{term.value}{note && <span class="literal-note">{note}</span>}</li>;
  }
  const there = graph.value.nodes.has(termKey(term));
  return (
    <li>
      <button
        type="button" class="link" title={there ? "Show" : "Draw"}
        onClick={() => { if (!there) add(node, group, [item]); void choose(termKey(term)); }}
      >{label ?? termName(term)}</button>
      {there && <span class="there" title="Drawn"><span class="unseen">drawn</span></span>}
    </li>
  );
}

/** Sorts groups: literals first, then outgoing edges, then incoming edges. Types are last, because they are shown above. */
function groupsInOrder({ groups }: Around): Group[] {
  const rank = (group: Group) =>
    (group.predicate === RDF_TYPE ? 8 : 0) + (group.direction === "in" ? 4 : 0) + (group.items[0]?.term.type === "literal" ? 0 : 2);
  return groups.toSorted((a, b) => rank(a) - rank(b));
}
