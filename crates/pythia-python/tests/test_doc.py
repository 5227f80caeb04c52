"""The examples in the documentation of the package run."""

import doctest
import importlib
import pkgutil

import pythiadb


def load_tests(loader, tests, ignore):
    names = dict(vars(pythiadb))
    tests.addTests(doctest.DocTestSuite(pythiadb, extraglobs=names))
    for module in pkgutil.iter_modules(pythiadb.__path__, "pythiadb."):
        if module.name in ("pythiadb._pythiadb", "pythiadb.rdflib", "pythiadb.notebook"):
            continue
        loaded = importlib.import_module(module.name)
        # A module's own names come first: pythiadb.oxigraph has a `parse` of its own.
        tests.addTests(doctest.DocTestSuite(loaded, extraglobs={**names, **vars(loaded)}))
    classes = doctest.DocTestFinder(exclude_empty=True)
    for name in pythiadb.__all__:
        thing = getattr(pythiadb, name)
        if getattr(thing, "__module__", "").startswith("pythiadb") and type(thing).__module__ == "builtins":
            for test in classes.find(thing, name, module=False, extraglobs=names):
                if test.examples:
                    tests.addTest(doctest.DocTestCase(test))
    return tests
