//! Names of types: `space.of.Name`.

/// A type's whole name, "" at first for the namespace that it lies in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Name {
    full: Box<str>,
}

impl Name {
    /// `name` with dots is whole; else it lies in `space` ("" is none). `None`: that is no name.
    pub(super) fn new(name: &str, space: &str) -> Option<Self> {
        let full = if name.contains('.') || space.is_empty() { name.to_owned() } else { format!("{space}.{name}") };
        full.split('.').all(is_word).then(|| Self { full: full.into() })
    }

    pub(super) fn full(&self) -> &str {
        &self.full
    }

    /// Without its namespace.
    pub(super) fn last(&self) -> &str {
        self.full.rsplit('.').next().unwrap_or_default()
    }

    pub(super) fn space(&self) -> &str {
        self.full.rsplit_once('.').map_or("", |(space, _)| space)
    }
}

/// A to Z, a to z, _ and, except at the start, 0 to 9.
pub(super) fn is_word(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
