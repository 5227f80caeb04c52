"""The examples in the documentation of the package run."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pythiadb


def load_tests(loader, tests, ignore):
    names = {name: getattr(pythiadb, name) for name in pythiadb.__all__}
    readme = Path(__file__).parent.parent / "README.md"
    tests.addTests(doctest.DocFileSuite(str(readme), module_relative=False))
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
