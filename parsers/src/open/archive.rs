//! Into compressed files and archives, as deep as they are nested.

use super::budget::FileBudget;
use super::sniff::{HEAD, Sort};
use super::{Content, ElfSource, Material, Place, sort_of, spool};
use crate::evidence::{Problem, Text};
use crate::limits;
use std::io::{self, Cursor, Read};

/// Reads what `text` holds.
pub(crate) fn read_text(text: Text, place: Place, budget: &FileBudget<'_>, out: &mut Vec<Material>) -> io::Result<()> {
    let head = text.bytes().get(..text.bytes().len().min(HEAD)).unwrap_or(&[]);
    match sort_of(head) {
        Sort::Other => out.push(place.material(Content::Text(text))),
        Sort::Elf { core } => out.push(elf(text, core, &place)),
        Sort::Zip => zip(&text, &place, budget, out),
        _ => return read(Box::new(Cursor::new(text.bytes())), place, budget, out),
    }
    Ok(())
}

fn elf(text: Text, core: bool, place: &Place) -> Material {
    let source = match &place.file {
        Some(path) => ElfSource::File(path.clone()),
        None => ElfSource::Unpacked(text),
    };
    place.material(Content::Elf { core, source })
}

/// Reads what comes out of `reader`.
///
/// # Errors
/// Nothing could be read at all.
pub(crate) fn read(
    mut reader: Box<dyn Read + '_>,
    place: Place,
    budget: &FileBudget<'_>,
    out: &mut Vec<Material>,
) -> io::Result<()> {
    let mut head = Vec::with_capacity(HEAD);
    (&mut reader)
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .or_else(|error| if head.is_empty() { Err(error) } else { Ok(0) })?;
    let sort = sort_of(&head);
    if let (Sort::Elf { core }, Some(path)) = (sort, &place.file) {
        // Compressed once in a file of its own: unpacking is the core reader's work.
        if place.envelopes.len() == 1 {
            out.push(place.material(Content::Elf { core, source: ElfSource::File(path.clone()) }));
            return Ok(());
        }
    }
    let reader: Box<dyn Read + '_> = Box::new(Cursor::new(head).chain(reader));
    if place.depth >= limits::NESTING && (sort.compression().is_some() || matches!(sort, Sort::Tar | Sort::Zip)) {
        let problem =
            Problem::error(None, format!("not read: more than {} archives within each other", limits::NESTING));
        out.push(with(place.material(Content::Nothing), problem));
        return Ok(());
    }
    match sort {
        Sort::Gzip => decompress(Box::new(flate2::read::MultiGzDecoder::new(reader)), "gzip", place, budget, out),
        Sort::Zstd => match zstd::stream::read::Decoder::new(reader) {
            Ok(decoder) => decompress(Box::new(decoder), "zstd", place, budget, out),
            Err(error) => refuse(&error, &place, out),
        },
        Sort::Xz => decompress(Box::new(xz2::read::XzDecoder::new_multi_decoder(reader)), "xz", place, budget, out),
        Sort::Bzip2 => decompress(Box::new(bzip2::read::MultiBzDecoder::new(reader)), "bzip2", place, budget, out),
        Sort::Tar => tar(reader, &place, budget, out),
        Sort::Unsupported(format) => {
            let problem = Problem::error(None, format!("{format} is not supported: unpack it first"));
            out.push(with(place.material(Content::Nothing), problem));
        }
        Sort::Zip | Sort::Elf { .. } | Sort::Other => {
            let mut reader = reader;
            let (text, problems) = match spool::fill(&mut reader, budget, matches!(sort, Sort::Elf { .. })) {
                Ok(filled) => filled,
                Err(error) if place.depth == 0 => return Err(error),
                Err(error) => {
                    refuse(&error, &place, out);
                    return Ok(());
                }
            };
            let mut place = place;
            if place.bytes == 0 {
                place.bytes = text.bytes().len() as u64;
            }
            let first = out.len();
            match sort {
                Sort::Zip => zip(&text, &place, budget, out),
                Sort::Elf { core } => out.push(elf(text, core, &Place { file: None, ..place })),
                _ => out.push(place.material(Content::Text(text))),
            }
            if let Some(material) = out.get_mut(first) {
                material.problems.extend(problems);
            }
        }
    }
    Ok(())
}

fn with(mut material: Material, problem: Problem) -> Material {
    material.problems.push(problem);
    material
}

fn refuse(error: &io::Error, place: &Place, out: &mut Vec<Material>) {
    let problem = Problem::error(None, format!("not read: it is damaged or cut ({error})"));
    out.push(with(place.material(Content::Nothing), problem));
}

fn decompress(decoder: Box<dyn Read + '_>, name: &str, place: Place, budget: &FileBudget<'_>, out: &mut Vec<Material>) {
    let inner = place.within(name);
    if let Err(error) = read(decoder, inner.clone(), budget, out) {
        refuse(&error, &inner, out);
    }
}

/// Members of a tar, as they come.
fn tar(reader: Box<dyn Read + '_>, place: &Place, budget: &FileBudget<'_>, out: &mut Vec<Material>) {
    let inner = place.within("tar");
    let mut archive = tar::Archive::new(reader);
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return refuse(&error, &inner, out),
    };
    for entry in entries {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let problem = Problem::warning(
                    None,
                    format!("the archive ends too early or is damaged ({error}): members are missing"),
                );
                out.push(with(inner.material(Content::Nothing), problem));
                return;
            }
        };
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let member = inner.member(&name, entry.size());
        let kind = entry.header().entry_type();
        if !budget.member() {
            let problem = Problem::error(
                None,
                format!("more than {} members: this one and all after it were not read", limits::MEMBERS),
            );
            out.push(with(member.material(Content::Nothing), problem));
            return;
        }
        if !kind.is_file() && !kind.is_contiguous() && !kind.is_gnu_sparse() {
            if kind.is_symlink() || kind.is_hard_link() {
                out.push(with(member.material(Content::Nothing), Problem::note(None, "a link: not followed")));
            }
            continue;
        }
        if entry.size() == 0 {
            continue;
        }
        if let Err(error) = read(Box::new(&mut entry), member.clone(), budget, out) {
            refuse(&error, &member, out);
        }
    }
}

/// Members of a zip, in the order of its directory.
fn zip(text: &Text, place: &Place, budget: &FileBudget<'_>, out: &mut Vec<Material>) {
    let inner = place.within("zip");
    let mut archive = match zip::ZipArchive::new(Cursor::new(text.bytes())) {
        Ok(archive) => archive,
        Err(error) => return refuse(&error.into(), &inner, out),
    };
    for index in 0..archive.len() {
        let name = archive.name_for_index(index).unwrap_or("").to_string();
        let mut entry = match archive.by_index(index) {
            Ok(entry) => entry,
            Err(error) => {
                refuse(&error.into(), &inner.member(&name, 0), out);
                continue;
            }
        };
        let member = inner.member(&name, entry.compressed_size());
        if !budget.member() {
            let problem = Problem::error(
                None,
                format!("more than {} members: this one and all after it were not read", limits::MEMBERS),
            );
            out.push(with(member.material(Content::Nothing), problem));
            return;
        }
        if entry.is_symlink() {
            out.push(with(member.material(Content::Nothing), Problem::note(None, "a link: not followed")));
            continue;
        }
        if entry.is_dir() || entry.size() == 0 {
            continue;
        }
        if let Err(error) = read(Box::new(&mut entry), member.clone(), budget, out) {
            refuse(&error, &member, out);
        }
    }
}
