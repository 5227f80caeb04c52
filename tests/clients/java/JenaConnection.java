import java.io.StringReader;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.jena.atlas.web.HttpException;
import org.apache.jena.query.*;
import org.apache.jena.rdf.model.*;
import org.apache.jena.rdfconnection.*;
import org.apache.jena.riot.*;
import org.apache.jena.sparql.engine.http.QueryExceptionHTTP;
import org.apache.jena.sparql.exec.http.*;

/** RDFConnection of Apache Jena: query forms, updates, graphs, whole datasets, errors. */
public class JenaConnection {
    static final String URL = System.getenv("PYTHIA_URL");
    static final String EX = "http://example.org/";
    static final List<String> AWKWARD = List.of("plain", "Ünïcödé", "日本語", "🙂 beyond the plane",
        "a \"quoted\" part", "two\nlines", "tab\tand\rreturn", "back\\slash", "<tag> & &amp;", " spaces ", "");

    interface Test { void run(RDFConnection connection) throws Exception; }

    public static void main(String[] arguments) {
        // The names of Fuseki, which are Jena's defaults below a dataset's address.
        RDFConnection fuseki = RDFConnection.connect(URL);
        // The names of Oxigraph.
        RDFConnection named = RDFConnectionRemote.newBuilder().destination(URL)
            .queryEndpoint("query").updateEndpoint("update").gspEndpoint("store").build();
        int failed = 0, count = 0;
        for (String names : System.getenv().getOrDefault("PYTHIA_NAMES", "fuseki,oxigraph").split(",")) {
            RDFConnection connection = names.equals("fuseki") ? fuseki : named;
            for (var test : tests()) {
                count++;
                try {
                    connection.update("DROP ALL");
                    test.run.run(connection);
                    System.out.println("ok " + names + ": " + test.name);
                } catch (Throwable problem) {
                    failed++;
                    System.out.println("FAILED " + names + ": " + test.name + ": " + problem);
                    problem.printStackTrace(System.out);
                }
            }
        }
        System.out.println(count + " tests, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    record Named(String name, Test run) {}

    static List<Named> tests() {
        return List.of(
            new Named("the forms of queries", JenaConnection::queryForms),
            new Named("updates", JenaConnection::updates),
            new Named("several updates in one request", JenaConnection::manyUpdates),
            new Named("graphs are put, loaded, fetched and deleted", JenaConnection::graphs),
            new Named("the default graph too", JenaConnection::defaultGraph),
            new Named("whole datasets", JenaConnection::datasets),
            new Named("every kind of text comes back", JenaConnection::text),
            new Named("blank nodes stay apart", JenaConnection::blankNodes),
            new Named("large results and graphs", JenaConnection::large),
            new Named("results in every format", JenaConnection::formats),
            new Named("graphs in every format", JenaConnection::graphFormats),
            new Named("named graphs of a request", JenaConnection::requestDataset),
            new Named("errors tell what is wrong", JenaConnection::errors));
    }

    static void queryForms(RDFConnection connection) {
        connection.update(insert("ex:ann ex:name 'Ann' ; ex:knows ex:bob . ex:bob ex:name 'Bob'@en ; ex:age 42 ."));
        List<String> names = new ArrayList<>();
        connection.querySelect("SELECT ?n { ?s <" + EX + "name> ?n } ORDER BY ?n",
            row -> names.add(row.getLiteral("n").getString()));
        equal(List.of("Ann", "Bob"), names);
        check(connection.queryAsk("ASK { ?s <" + EX + "age> 42 }"));
        check(!connection.queryAsk("ASK { ?s <" + EX + "age> 43 }"));
        Model made = connection.queryConstruct("CONSTRUCT { ?o <" + EX + "knownBy> ?s } WHERE { ?s <" + EX + "knows> ?o }");
        equal(1L, made.size());
        equal(2L, connection.queryDescribe("DESCRIBE <" + EX + "bob>").size());
        try (QueryExecution execution = connection.query("SELECT ?age { ?s <" + EX + "age> ?age }")) {
            equal(42, execution.execSelect().next().getLiteral("age").getInt());
        }
    }

    static void updates(RDFConnection connection) {
        connection.update(insert("ex:a ex:p 1 , 2"));
        connection.update("PREFIX ex: <" + EX + "> DELETE { ?s ex:p ?o } INSERT { ?s ex:p ?n } WHERE { ?s ex:p ?o BIND(?o + 10 AS ?n) }");
        equal(Set.of("11", "12"), objects(connection, "?s <" + EX + "p> ?o"));
        connection.update("DELETE DATA { <" + EX + "a> <" + EX + "p> 11 }");
        equal(Set.of("12"), objects(connection, "?s <" + EX + "p> ?o"));
    }

    static void manyUpdates(RDFConnection connection) {
        connection.update("PREFIX ex: <" + EX + "> INSERT DATA { ex:a ex:p 1 } ; PREFIX ey: <" + EX + "> INSERT DATA { GRAPH ey:g { ey:a ey:p 2 } } ; COPY ey:g TO DEFAULT");
        equal(Set.of("2"), objects(connection, "?s ?p ?o"));
    }

    static void graphs(RDFConnection connection) {
        String graph = EX + "graph?with=query&and#fragment";
        connection.put(graph, model("ex:a ex:p 1 , 2"));
        equal(2L, connection.fetch(graph).size());
        connection.load(graph, model("ex:a ex:p 2 , 3"));
        equal(3L, connection.fetch(graph).size());
        connection.put(graph, model("ex:b ex:q ex:c"));
        check(connection.fetch(graph).isIsomorphicWith(model("ex:b ex:q ex:c")));
        equal(0L, connection.fetch().size());
        connection.delete(graph);
        status(404, () -> connection.fetch(graph));
    }

    static void defaultGraph(RDFConnection connection) {
        connection.load(model("ex:a ex:p 1"));
        connection.load(model("ex:a ex:p 2"));
        equal(2L, connection.fetch().size());
        connection.put(model("ex:a ex:p 3"));
        check(connection.fetch().isIsomorphicWith(model("ex:a ex:p 3")));
        connection.delete();
        equal(0L, connection.fetch().size());
    }

    static void datasets(RDFConnection connection) {
        Dataset dataset = DatasetFactory.create();
        dataset.setDefaultModel(model("ex:a ex:p 1"));
        dataset.addNamedModel(EX + "g", model("ex:a ex:p 2"));
        connection.putDataset(dataset);
        equal(1L, connection.fetch().size());
        equal(1L, connection.fetch(EX + "g").size());
        Dataset more = DatasetFactory.create();
        more.addNamedModel(EX + "h", model("ex:a ex:p 3"));
        connection.loadDataset(more);
        Dataset fetched = connection.fetchDataset();
        equal(1L, fetched.getDefaultModel().size());
        equal(1L, fetched.getNamedModel(EX + "g").size());
        equal(1L, fetched.getNamedModel(EX + "h").size());
        connection.putDataset(more);
        equal(0L, connection.fetch().size());
    }

    static void text(RDFConnection connection) {
        Model model = ModelFactory.createDefaultModel();
        Property p = model.createProperty(EX + "日本");
        AWKWARD.forEach(text -> model.createResource(EX + "s").addProperty(p, text).addProperty(p, text, "de"));
        String graph = EX + "graphe-é";
        connection.put(graph, model);
        check(connection.fetch(graph).isIsomorphicWith(model));
        equal(Set.copyOf(AWKWARD), objects(connection, "GRAPH ?g { ?s ?p ?o FILTER(LANG(?o) = '') }"));
        for (String text : AWKWARD) {
            ParameterizedSparqlString ask = new ParameterizedSparqlString("ASK { GRAPH ?g { ?s ?p ?text } }");
            ask.setLiteral("text", text);
            check(connection.queryAsk(ask.asQuery()));
        }
    }

    static void blankNodes(RDFConnection connection) {
        Model model = model("[] ex:p [ ex:q 1 ] , [ ex:q 2 ]");
        connection.load(model);
        connection.load(model);
        equal(8L, connection.fetch().size());
    }

    static void large(RDFConnection connection) {
        int count = 20_000;
        Model model = ModelFactory.createDefaultModel();
        Property p = model.createProperty(EX + "value");
        IntStream.range(0, count).forEach(n -> model.createResource(EX + "n" + n).addLiteral(p, (long) n));
        connection.put(model);
        long[] sum = {0, 0};
        connection.querySelect("SELECT ?v { ?s ?p ?v }", row -> { sum[0] += row.getLiteral("v").getLong(); sum[1]++; });
        equal((long) count, sum[1]);
        equal((long) count * (count - 1) / 2, sum[0]);
        equal((long) count, connection.fetch().size());
        // A result that is not read to its end.
        try (QueryExecution execution = connection.query("SELECT ?v { ?s ?p ?v }")) {
            execution.execSelect().next();
        }
        equal((long) count, connection.queryConstruct("CONSTRUCT WHERE { ?s ?p ?v }").size());
    }

    static void formats(RDFConnection connection) {
        connection.update(insert("ex:a ex:p 'x'@en , 7 , ex:b"));
        for (String type : List.of("application/sparql-results+json", "application/sparql-results+xml",
                "text/tab-separated-values", "text/csv")) {
            try (var execution = QueryExecHTTP.service(URL + "/query").query("SELECT ?o { ?s ?p ?o }").acceptHeader(type).build()) {
                equal(3, ResultSetFormatter.consume(ResultSet.adapt(execution.select())));
            }
        }
    }

    static void graphFormats(RDFConnection connection) {
        Model model = model("ex:a ex:p 'x'@en , 7 , [ ex:q ex:b ]");
        for (RDFFormat format : List.of(RDFFormat.TURTLE, RDFFormat.NTRIPLES_UTF8, RDFFormat.RDFXML_PLAIN, RDFFormat.JSONLD)) {
            var graph = GSP.service(URL + "/store").graphName(EX + "g");
            graph.contentType(format).PUT(model.getGraph());
            check(graph.acceptHeader(format.getLang().getHeaderString()).GET().isIsomorphicWith(model.getGraph()));
        }
        Dataset dataset = DatasetFactory.create(model);
        for (RDFFormat format : List.of(RDFFormat.NQUADS, RDFFormat.TRIG)) {
            DSP.service(URL + "/store").contentType(format).PUT(dataset.asDatasetGraph());
            equal(4L, connection.fetch().size());
        }
    }

    static void requestDataset(RDFConnection connection) {
        connection.put(EX + "one", model("ex:a ex:p 1"));
        connection.put(EX + "two", model("ex:a ex:p 2"));
        try (QueryExecution execution = QueryExecutionHTTP.service(URL + "/query").query("SELECT ?o { ?s ?p ?o }")
                .addDefaultGraphURI(EX + "one").addNamedGraphURI(EX + "two").build()) {
            equal(1, execution.execSelect().next().getLiteral("o").getInt());
        }
    }

    static void errors(RDFConnection connection) {
        try (var execution = QueryExecHTTP.service(URL + "/query").queryString("SELECT * { ?s ?p").build()) {
            execution.select();
            throw new AssertionError("answered");
        } catch (QueryExceptionHTTP problem) {
            equal(400, problem.getStatusCode());
            check(!problem.getResponse().isBlank());
        }
        status(400, () -> UpdateExecHTTP.service(URL + "/update").parseCheck(false).update("INSERT DATA { ?v <p> 1 }").build().execute());
        status(404, () -> connection.fetch(EX + "not-there"));
        status(404, () -> QueryExecHTTP.service(URL + "/no/such/service").query("ASK {}").build().ask());
        status(400, () -> GSP.service(URL + "/store").graphName(EX + "g").httpHeader("Content-Type", "text/turtle").PUT(badFile()));
    }

    static String badFile() {
        try {
            var path = java.nio.file.Files.createTempFile("bad", ".ttl");
            java.nio.file.Files.writeString(path, "<a> <b> .");
            path.toFile().deleteOnExit();
            return path.toString();
        } catch (java.io.IOException problem) {
            throw new java.io.UncheckedIOException(problem);
        }
    }

    static String insert(String triples) {
        return "PREFIX ex: <" + EX + "> INSERT DATA { " + triples + " }";
    }

    static Model model(String turtle) {
        Model model = ModelFactory.createDefaultModel();
        RDFDataMgr.read(model, new StringReader("PREFIX ex: <" + EX + "> " + turtle + " ."), EX, Lang.TURTLE);
        return model;
    }

    static Set<String> objects(RDFConnection connection, String pattern) {
        Set<String> found = new HashSet<>();
        connection.querySelect("SELECT ?o { " + pattern + " }", row -> found.add(row.getLiteral("o").getLexicalForm()));
        return found;
    }

    /** What is done must be refused with this status. */
    static void status(int expected, Runnable action) {
        try {
            action.run();
        } catch (HttpException problem) {
            equal(expected, problem.getStatusCode());
            return;
        } catch (QueryExceptionHTTP problem) {
            equal(expected, problem.getStatusCode());
            return;
        }
        throw new AssertionError("done, and not refused with " + expected);
    }

    static void check(boolean holds) {
        if (!holds) throw new AssertionError("does not hold");
    }

    static void equal(Object expected, Object got) {
        if (!expected.equals(got)) throw new AssertionError("got " + got + ", not " + expected);
    }
}
