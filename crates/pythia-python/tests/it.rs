//! The module can be loaded by Python. Its own tests are those of `scripts/test-python`.

use std::path::Path;
use std::process::Command;

#[test]
fn python_loads_the_module() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let package = folder.path().join("pythiadb");
    std::fs::create_dir(&package).expect("a folder");
    for entry in std::fs::read_dir(manifest.join("python/pythiadb")).expect("the package") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "py") {
            std::fs::copy(&path, package.join(path.file_name().expect("a name"))).expect("copied");
        }
    }
    // Tests are next to the library: target/debug/deps.
    let program = std::env::current_exe().expect("this program");
    let library = program.parent().expect("a folder").join("lib_pythiadb.so");
    std::fs::copy(&library, package.join("_pythiadb.abi3.so")).expect("the library is built");
    let text = "import pythiadb; print(pythiadb.Database.in_memory().query('ASK {}'))";
    let done = Command::new("python3")
        .args(["-c", text])
        .env("PYTHONPATH", folder.path())
        .output()
        .expect("python3 runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "True\n", "{errors}");
}
