//! Cores made on the spot by whatever Go toolchains there are: `go` on the PATH, and those named in `HOLDUP_GO`
//! (separated by `:`). Without any, or where the kernel writes no core into the folder, the tests say so and pass.

use crate::oracle::{blocks, dump};
use holdup_parsers::ReadOptions;
use holdup_parsers::core::{self, go::Level};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn toolchains() -> Vec<PathBuf> {
    let named = std::env::var_os("HOLDUP_GO").unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("go"));
    let mut found: Vec<PathBuf> = std::env::split_paths(&named).chain(on_path).filter(|path| path.is_file()).collect();
    found.dedup();
    found
}

#[test]
fn fresh_cores_equal_the_dump_that_was_printed_with_them() {
    let toolchains = toolchains();
    if toolchains.is_empty() {
        println!("skipped: no Go toolchain on this machine");
        return;
    }
    for go in toolchains {
        for (variant, flags) in [
            ("stripped", vec!["-ldflags=-s -w"]),
            ("pie", vec!["-buildmode=pie"]),
            ("debug", vec!["-gcflags=all=-N -l"]),
        ] {
            match compare(&go, &flags) {
                Ok((equal, all)) => {
                    println!("{} {variant}: {equal} of {all} blocks equal", go.display());
                    assert_eq!(equal, all);
                }
                Err(why) => println!("skipped {} {variant}: {why}", go.display()),
            }
        }
    }
}

fn compare(go: &Path, flags: &[&str]) -> Result<(usize, usize), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/cores/src/lockscene");
    let program = folder.path().join("lockscene");
    let built = Command::new(go)
        .arg("build")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .current_dir(source)
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .output()
        .map_err(|error| error.to_string())?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    let log = folder.path().join("stderr");
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -c unlimited && exec ./lockscene"])
        .current_dir(folder.path())
        .env("GOTRACEBACK", "crash")
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).map_err(|error| error.to_string())?)
        .spawn()
        .map_err(|error| error.to_string())?;
    // The truth's closing brace is the last line before it sleeps.
    let out = child.stdout.take().ok_or("no output")?;
    for line in BufReader::new(out).lines() {
        if line.map_err(|error| error.to_string())? == "}" {
            break;
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let killed = Command::new("kill").args(["-ABRT", &child.id().to_string()]).status();
    killed.map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    let file = std::fs::read_dir(folder.path())
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core")))
        .ok_or("the kernel wrote no core here")?;
    let options = ReadOptions { exe: vec![program], ..ReadOptions::default() };
    let core = core::open(&file, &options).map_err(|error| error.to_string())?;
    let wanted = blocks(&std::fs::read_to_string(&log).map_err(|error| error.to_string())?);
    let got = blocks(&dump(&core, Level::Crash));
    let equal = wanted.iter().filter(|(id, block)| got.get(id) == Some(block)).count();
    for (id, block) in wanted.iter().filter(|(id, block)| got.get(id) != Some(block)).take(2) {
        println!("goroutine {id} is {:#?}, not {block:#?}", got.get(id));
    }
    Ok((equal, wanted.len()))
}
