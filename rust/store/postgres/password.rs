//! The password file: one line per server, `host:port:database:user:password`, each of the first four possibly `*`.

use std::path::{Path, PathBuf};

/// The password for a server, if a file that nobody else may read has one.
pub(super) fn find(file: Option<&str>, host: &str, port: u16, database: &str, user: &str) -> Option<String> {
    let path = match file {
        Some(file) => PathBuf::from(file),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"),
    };
    if !path.is_file() {
        return None;
    }
    if others_may_read(&path) {
        log::warn!("{} was not read for a password: take the rights of others away with chmod 600", path.display());
        return None;
    }
    // A socket's folder stands in the file as localhost.
    let host = if host.starts_with('/') { "localhost" } else { host };
    look(&std::fs::read_to_string(path).ok()?, [host, &port.to_string(), database, user])
}

#[cfg(unix)]
fn others_may_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_may_read(_path: &Path) -> bool {
    false
}

fn look(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [host, port, database, user, password] = fields.as_slice() else { return None };
        let same =
            [host, port, database, user].into_iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        same.then(|| password.clone())
    })
}

/// Colons part the fields, except after a backslash.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut().into_iter().for_each(|field| field.extend(characters.next())),
            other => fields.last_mut().into_iter().for_each(|field| field.push(other)),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# a comment\nother:*:*:*:wrong\nhere:5432:jobs:ada:a\\:b\\\\c:d\n*:*:*:*:last\n";
        assert_eq!(look(text, ["here", "5432", "jobs", "ada"]).as_deref(), Some("a:b\\c:d"));
        assert_eq!(look(text, ["here", "5433", "jobs", "ada"]).as_deref(), Some("last"));
        assert_eq!(look("here:1:x:y:z", ["there", "1", "x", "y"]), None);
    }
}
