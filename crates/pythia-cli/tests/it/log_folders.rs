//! Commands without folder options, on stores whose log is in several folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use pythia::{Options, WriteOptions};

use crate::support::{command, open_once_unlocked};

fn pythia(arguments: &[&str]) -> Output {
    command(arguments).output().expect("pythia runs")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = pythia(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// What is said on standard error of damage.
fn refused(arguments: &[&str]) -> String {
    let output = pythia(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(3),
        "{arguments:?}: {out}{errors}"
    );
    format!("{out}{errors}")
}

/// A store as a server makes it with `log_folders` and `log_archive`.
fn make_store(folder: &Path) -> [String; 3] {
    let [store, second, archive] = ["store", "second", "archive"].map(|name| folder.join(name));
    pythia::load(&store, Vec::new(), &Default::default(), &Default::default()).expect("made");
    let write = WriteOptions {
        log_folders: vec![second.clone()],
        log_archive: Some(archive.clone()),
        ..WriteOptions::default()
    };
    let options = Options {
        write: Some(write),
        ..Options::default()
    };
    let database = open_once_unlocked(&store, &options);
    for number in 0..20 {
        let update = format!("INSERT DATA {{ <http://e/s> <http://e/p> {number} }}");
        database.update(&update).expect("updated");
    }
    let text = |path: PathBuf| path.display().to_string();
    [text(store), text(second), text(archive)]
}

const COUNT: &str = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }";

#[test]
fn commands_use_the_folders_that_the_store_knows_and_refuse_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [store, second, archive] = make_store(folder.path());
    let listed = succeeds(&["log-folders", "-l", &store]);
    for path in [&store, &second, &archive] {
        assert!(listed.contains(path.as_str()), "{listed}");
    }
    assert_eq!(listed.matches("present").count(), 2, "{listed}");

    // Neither load nor update gets an option for the archive, and both fill it.
    let data = folder.path().join("more.nt");
    fs::write(&data, "<http://e/more> <http://e/p> <http://e/o> .\n").expect("written");
    let data = data.display().to_string();
    for number in 100..103 {
        let update = format!("INSERT DATA {{ <http://e/s> <http://e/p> {number} }}");
        succeeds(&["update", "-l", &store, "-u", &update]);
    }
    succeeds(&["load", "-l", &store, &data]);
    let archived = fs::read_dir(Path::new(&archive).join("log")).expect("there");
    assert!(archived.count() > 2, "log files and FOLDER");
    assert!(succeeds(&["query", "-l", &store, "-q", COUNT]).contains("24"));

    let away = folder.path().join("away").display().to_string();
    fs::rename(&second, &away).expect("moved");
    let commands = [
        &["query", "-l", &store, "-q", COUNT][..],
        &["update", "-l", &store, "-u", "CLEAR ALL"],
        &["load", "-l", &store, &data],
        &["backup", "-l", &store, &format!("{away}-backup")],
        &["salvage", "-l", &store],
        &["log", "-l", &store],
        &["verify", "-l", &store],
        &["serve", "-l", &store, "--bind", "127.0.0.1:0"],
    ];
    for command in commands {
        let message = refused(command);
        assert!(message.contains(&second), "{command:?}: {message}");
        assert!(message.contains("--move"), "{command:?}: {message}");
    }
    assert!(!Path::new(&second).exists(), "nobody makes it");
    let listed = succeeds(&["log-folders", "-l", &store]);
    assert!(listed.contains("no such folder"), "{listed}");
    let wrong = refused(&["log-folders", "-l", &store, "--move", &second, &store]);
    assert!(wrong.contains("Nothing was changed"), "{wrong}");
    let listed = succeeds(&["log-folders", "-l", &store, "--move", &second, &away]);
    assert!(listed.contains(&away), "{listed}");
    assert!(succeeds(&["query", "-l", &store, "-q", COUNT]).contains("24"));

    let listed = succeeds(&["log-folders", "-l", &store, "--archive", "none"]);
    assert!(listed.contains("archive    none"), "{listed}");
    succeeds(&["verify", "-l", &store]);
}

#[test]
fn an_emptied_folder_is_accepted_by_the_option_that_the_error_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [store, second, _] = make_store(folder.path());
    fs::remove_dir_all(&second).expect("there");
    fs::create_dir(&second).expect("a mount point");
    let message = refused(&["query", "-l", &store, "-q", COUNT]);
    assert!(message.contains("is empty"), "{message}");
    assert!(
        message.contains(&format!("pythia log-folders -l {store}")),
        "{message}"
    );
    assert!(
        message.contains(&format!("--accept-empty {second}")),
        "{message}"
    );
    succeeds(&["log-folders", "-l", &store, "--accept-empty", &second]);
    // Commits that only this folder had are lost; salvage names them before it gives them up.
    let found = pythia(&["salvage", "-l", &store]);
    let plan = String::from_utf8_lossy(&found.stdout);
    if !plan.contains("nothing is lost") {
        assert_eq!(found.status.code(), Some(3), "{plan}");
        assert!(plan.contains(&format!("{second}/log/01-")), "{plan}");
        succeeds(&["salvage", "-l", &store, "--give-up"]);
    }
    succeeds(&[
        "update",
        "-l",
        &store,
        "-u",
        "INSERT DATA { <http://e/s> <http://e/p> 7000 }",
    ]);
    succeeds(&["verify", "-l", &store]);
}

#[test]
fn a_restore_refuses_a_damaged_archive_and_says_which_commits_it_may_hold() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [store, archive, backup] = ["store", "archive", "backup"].map(path);
    pythia::load(
        Path::new(&store),
        Vec::new(),
        &Default::default(),
        &Default::default(),
    )
    .expect("made");
    fs::create_dir(&archive).expect("made");
    let insert = |number: u32| {
        let update = format!("INSERT DATA {{ <http://e/s> <http://e/p> {number} }}");
        succeeds(&["update", "-l", &store, "-u", &update]);
    };
    insert(1);
    succeeds(&["log-folders", "-l", &store, "--archive", &archive]);
    succeeds(&["backup", "-l", &store, &backup]);
    (2..9).for_each(insert);
    // A load moves to the device what the log has, and so the log's files to the archive.
    let data = path("more.nt");
    fs::write(&data, "<http://e/more> <http://e/p> <http://e/o> .\n").expect("written");
    succeeds(&["load", "-l", &store, &data]);
    let sound = path("sound");
    succeeds(&["restore", &backup, "-l", &sound, "--archive", &archive]);
    let answer = succeeds(&["query", "-l", &sound, "-q", COUNT]);
    assert!(answer.contains('8'), "{answer}");

    let files = fs::read_dir(Path::new(&archive).join("log")).expect("there");
    let newest = files
        .map(|file| file.expect("listed").path())
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .max()
        .expect("archived");
    let mut bytes = fs::read(&newest).expect("read");
    bytes[20] ^= 0x55;
    fs::write(&newest, bytes).expect("written");
    let damaged = path("damaged");
    let message = refused(&["restore", &backup, "-l", &damaged, "--archive", &archive]);
    let name = newest.file_name().and_then(|name| name.to_str());
    assert!(message.contains(name.expect("a name")), "{message}");
    assert!(message.contains("--to-position"), "{message}");
}
