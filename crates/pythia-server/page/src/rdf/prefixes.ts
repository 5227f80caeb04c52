// Namespace prefixes: well-known prefixes and the prefixes that a query declares.

/** Prefixes that the server also knows (its tests compare both lists), and prefixes of Pythia's own formats. */
const WELL_KNOWN: Record<string, string> = {
  agg: "http://jena.apache.org/ARQ/function/aggregate#",
  bd: "http://www.bigdata.com/rdf#",
  dbo: "http://dbpedia.org/ontology/",
  dbp: "http://dbpedia.org/property/",
  dbr: "http://dbpedia.org/resource/",
  dc: "http://purl.org/dc/elements/1.1/",
  dcat: "http://www.w3.org/ns/dcat#",
  dcterms: "http://purl.org/dc/terms/",
  dct: "http://purl.org/dc/terms/",
  foaf: "http://xmlns.com/foaf/0.1/",
  fn: "http://www.w3.org/2005/xpath-functions#",
  geo: "http://www.opengis.net/ont/geosparql#",
  geof: "http://www.opengis.net/def/function/geosparql/",
  gr: "http://purl.org/goodrelations/v1#",
  math: "http://www.w3.org/2005/xpath-functions/math#",
  org: "http://www.w3.org/ns/org#",
  owl: "http://www.w3.org/2002/07/owl#",
  p: "http://www.wikidata.org/prop/",
  pq: "http://www.wikidata.org/prop/qualifier/",
  prov: "http://www.w3.org/ns/prov#",
  ps: "http://www.wikidata.org/prop/statement/",
  qb: "http://purl.org/linked-data/cube#",
  rdf: "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
  rdfs: "http://www.w3.org/2000/01/rdf-schema#",
  schema: "http://schema.org/",
  sh: "http://www.w3.org/ns/shacl#",
  sioc: "http://rdfs.org/sioc/ns#",
  skos: "http://www.w3.org/2004/02/skos/core#",
  sosa: "http://www.w3.org/ns/sosa/",
  time: "http://www.w3.org/2006/time#",
  vcard: "http://www.w3.org/2006/vcard/ns#",
  void: "http://rdfs.org/ns/void#",
  wd: "http://www.wikidata.org/entity/",
  wdt: "http://www.wikidata.org/prop/direct/",
  wikibase: "http://wikiba.se/ontology#",
  xsd: "http://www.w3.org/2001/XMLSchema#",
  yago: "http://yago-knowledge.org/resource/",
  path: "urn:pythia:path#",
  sd: "http://www.w3.org/ns/sparql-service-description#",
};

const DECLARATION = /\bPREFIX\s+([\p{L}][\p{L}\p{N}_.-]*|):\s*<([^<>"{}|^`\\\s]*)>/giu;
/** Local names that need no escapes. */
const LOCAL = /^[\p{L}\p{N}_](?:[\p{L}\p{N}_.-]*[\p{L}\p{N}_-])?$/u;

export class Prefixes {
  private readonly byNamespace: [namespace: string, name: string][];

  private constructor(readonly declared: ReadonlyMap<string, string>) {
    const known = Object.entries(WELL_KNOWN).filter(([name]) => !declared.has(name));
    this.byNamespace = [...declared, ...known].map(([name, namespace]) => [namespace, name]);
    // The longest matching namespace gives the best name for an IRI.
    this.byNamespace.sort(([a], [b]) => b.length - a.length);
  }

  /** Returns the declarations of a query together with the well-known prefixes. The declarations have priority. */
  static of(query: string): Prefixes {
    const found = new Map<string, string>();
    for (const [, name, namespace] of query.matchAll(DECLARATION)) {
      if (namespace) found.set(name ?? "", namespace);
    }
    return new Prefixes(found);
  }

  /** Returns the short form of an IRI, such as `foaf:name`, or null if no prefix fits. */
  shorten(iri: string): string | null {
    for (const [namespace, name] of this.byNamespace) {
      if (iri.startsWith(namespace) && LOCAL.test(iri.slice(namespace.length))) {
        return `${name}:${iri.slice(namespace.length)}`;
      }
    }
    return null;
  }
}

/** Returns the namespace of a well-known prefix. */
export function wellKnown(prefix: string): string | undefined {
  return Object.hasOwn(WELL_KNOWN, prefix) ? WELL_KNOWN[prefix] : undefined;
}

/** Returns a prefix declaration and its position in the query: after BASE and the existing declarations. */
export function declaration(query: string, name: string, namespace: string): { at: number; text: string } | null {
  if (Prefixes.of(query).declared.has(name)) return null;
  const prologue = /^(?:\s*(?:#[^\n]*\n|(?:PREFIX\s+[^\s<]*\s*<[^>]*>|BASE\s*<[^>]*>)[ \t]*\n?))*/iu.exec(query)?.[0] ?? "";
  const text = `PREFIX ${name}: <${namespace}>\n`;
  const ends = prologue === "" || prologue.endsWith("\n");
  return { at: prologue.length, text: ends ? text : `\n${text}` };
}
