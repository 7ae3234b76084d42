//! `holdup anonymize`: the same evidence without names, to be given to others.

use crate::args::AnonymizeArgs;
use crate::exit::{Exit, say};
use crate::output;
use crate::progress::Progress;
use holdup_parsers::anonymize::{self, Anonymizer, Ready, Replaced, Sort};
use holdup_parsers::evidence::{Evidence, InputKind};
use holdup_parsers::{ReadOptions, Unreadable};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Runs the command and says how the program ends.
pub fn run(args: &AnonymizeArgs) -> Exit {
    let form = Form::of(&args.output);
    if let Err(message) = may_write(&args.output, form) {
        say(message);
        return Exit::Trouble;
    }
    let progress = Progress::new(!args.no_progress && !args.quiet);
    progress.stage("reading");
    let (evidence, unreadable) = holdup_parsers::read(&args.paths, &ReadOptions::default());
    let mut notes = Vec::new();
    let texts = texts(&evidence, &mut notes);
    if texts.is_empty() {
        drop(progress);
        complain(&unreadable);
        notes.iter().for_each(say);
        if !unreadable.is_empty() {
            return Exit::Trouble;
        }
        say("there is no text under the given paths that could be anonymized");
        return Exit::NothingRecognised;
    }

    progress.stage("learning names");
    let mut anonymizer = Anonymizer::new(seed());
    anonymizer.learn(&evidence);
    for (_, text) in &texts {
        anonymizer.learn_text(text);
    }
    progress.stage("replacing names");
    let mut ready = anonymizer.ready();
    let written = write(&args.output, form, &args.paths, &texts, &mut ready);
    let list = list_path(&args.output);
    let listed = written.and_then(|()| write_list(&list, &ready.replaced()));
    drop(progress);

    complain(&unreadable);
    if !args.quiet {
        notes.iter().for_each(say);
    }
    match listed {
        Ok(()) if !args.quiet => {
            let replaced = ready.replaced();
            let count: u64 = replaced.iter().map(|one| one.count).sum();
            say(format_args!(
                "{} files written to {}; {} names replaced {count} times. Which, stands in {}: keep that to yourself, and \
                 look the files over before you give them away",
                texts.len(),
                args.output.display(),
                replaced.len(),
                list.display()
            ));
        }
        Ok(()) => {}
        Err(error) => return output::failed(&args.output.display().to_string(), &error),
    }
    if unreadable.is_empty() { Exit::Done } else { Exit::Trouble }
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Folder,
    TarGz,
    Zip,
}

impl Form {
    fn of(path: &Path) -> Form {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match () {
            () if name.ends_with(".tar.gz") || name.ends_with(".tgz") => Form::TarGz,
            () if name.ends_with(".zip") => Form::Zip,
            () => Form::Folder,
        }
    }
}

/// Nothing that is there is overwritten: it might be what was to be anonymized.
fn may_write(path: &Path, form: Form) -> Result<(), String> {
    let list = list_path(path);
    if list.exists() {
        return Err(format!(
            "{} is there already: it belongs to an earlier result, move it away first",
            list.display()
        ));
    }
    match (form, fs::read_dir(path)) {
        (Form::Folder, Ok(mut entries)) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(format!("{} is not empty: give a new folder", path.display())),
        },
        _ if path.exists() => Err(format!("{} is there already: give a new name", path.display())),
        _ => Ok(()),
    }
}

fn list_path(output: &Path) -> PathBuf {
    let mut name = OsString::from(output.file_name().unwrap_or_default());
    name.push(".replaced.json");
    output.with_file_name(name)
}

/// Names must not be guessed from pseudonyms.
fn seed() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// The texts among what was read; what is left out is noted.
fn texts<'e>(evidence: &'e Evidence, notes: &mut Vec<String>) -> Vec<(&'e str, &'e [u8])> {
    let mut found = Vec::new();
    for input in &evidence.inputs {
        let bytes = input.raw.bytes();
        match input.kind {
            InputKind::Core => notes.push(format!(
                "{}: a core holds the whole memory of its process and is left out; `holdup core {} --as-dump` prints its \
                 goroutines as a text that can be anonymized",
                input.path, input.path
            )),
            InputKind::Executable => notes.push(format!("{}: an executable is left out", input.path)),
            _ if bytes.is_empty() => {
                let why = input.problems.first().map_or("it is empty", |problem| problem.message.as_str());
                notes.push(format!("{}: left out: {why}", input.path));
            }
            _ if anonymize::sort(bytes) == Sort::Binary => notes.push(format!(
                "{}: not a text, left out: names in it could not be found",
                input.path
            )),
            _ => found.push((input.path.as_str(), bytes)),
        }
    }
    found
}

fn write(output: &Path, form: Form, paths: &[PathBuf], texts: &[(&str, &[u8])], ready: &mut Ready) -> io::Result<()> {
    let mut sink = Sink::open(output, form)?;
    let mut taken = HashSet::new();
    for (path, text) in texts {
        let mut name = ready.path(&member(path, paths));
        let mut n = 1;
        while !taken.insert(name.clone()) {
            n += 1;
            name = format!("{n}-{}", ready.path(&member(path, paths)));
        }
        sink.add(&name, &ready.text(text))?;
    }
    sink.close(output)
}

/// A file's name in the result: below the path that was given, archives as folders, without what compressed it.
fn member(path: &str, paths: &[PathBuf]) -> String {
    let given = paths.iter().map(|p| p.display().to_string()).filter(|given| path.starts_with(given.as_str()));
    let given = given.max_by_key(String::len).unwrap_or_default();
    let rest = path.get(given.len()..).unwrap_or("").trim_start_matches(['/', '!']);
    let base = Path::new(&given).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let whole = match (rest.is_empty(), paths.len()) {
        (true, _) => base,
        (false, 1) => rest.to_string(),
        (false, _) => format!("{base}/{rest}"),
    };
    let parts = whole.split(['/', '\\']).filter(|part| !matches!(*part, "" | "." | ".."));
    let named: Vec<&str> =
        parts.map(|part| uncompressed(part.trim_end_matches('!'))).filter(|part| !part.is_empty()).collect();
    if named.is_empty() { "stdin.txt".to_string() } else { named.join("/") }
}

fn uncompressed(name: &str) -> &str {
    const ENDINGS: [&str; 12] =
        [".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2", ".tgz", ".tar", ".zip", ".gz", ".zst", ".xz", ".bz2", ".txz"];
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Where the result goes. An archive gets its name only when it is whole.
enum Sink {
    Folder(PathBuf),
    TarGz(Box<tar::Builder<flate2::write::GzEncoder<File>>>, PathBuf),
    Zip(Box<zip::ZipWriter<File>>, PathBuf),
}

impl Sink {
    fn open(output: &Path, form: Form) -> io::Result<Sink> {
        if form == Form::Folder {
            fs::create_dir_all(output)?;
            return Ok(Sink::Folder(output.to_owned()));
        }
        let mut name = OsString::from(".");
        name.push(output.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = output.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        Ok(match form {
            Form::Zip => Sink::Zip(Box::new(zip::ZipWriter::new(file)), temporary),
            _ => {
                let encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
                Sink::TarGz(Box::new(tar::Builder::new(encoder)), temporary)
            }
        })
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Folder(folder) => {
                let path = folder.join(name);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
            }
            Sink::TarGz(tar, _) => {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                header.set_mode(0o644);
                tar.append_data(&mut header, name, bytes)
            }
            Sink::Zip(zip, _) => {
                zip.start_file(name, zip::write::SimpleFileOptions::default()).map_err(io::Error::from)?;
                zip.write_all(bytes)
            }
        }
    }

    fn close(self, output: &Path) -> io::Result<()> {
        match self {
            Sink::Folder(_) => Ok(()),
            Sink::TarGz(tar, temporary) => {
                tar.into_inner()?.finish()?.sync_all()?;
                fs::rename(temporary, output)
            }
            Sink::Zip(zip, temporary) => {
                zip.finish().map_err(io::Error::from)?.sync_all()?;
                fs::rename(temporary, output)
            }
        }
    }
}

/// The list of what was replaced: readable by its owner alone.
fn write_list(path: &Path, replaced: &[Replaced]) -> io::Result<()> {
    let rows: Vec<serde_json::Value> = replaced
        .iter()
        .map(|one| {
            serde_json::json!({
                "kind": one.kind.as_str(), "original": one.original, "pseudonym": one.pseudonym, "count": one.count
            })
        })
        .collect();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut text = serde_json::to_vec_pretty(&rows)?;
    text.push(b'\n');
    options.open(path)?.write_all(&text)
}

fn complain(unreadable: &[Unreadable]) {
    for path in unreadable {
        say(format_args!("cannot read {}: {}", path.path, path.message));
    }
}
