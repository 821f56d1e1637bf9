//! One message's bytes, and how its headers lie in them.

/// The length of a null payload or key, as opposed to an empty one.
pub(crate) const NULL: u32 = u32::MAX;

pub(crate) fn length(part: Option<&[u8]>) -> u32 {
    part.map_or(NULL, |bytes| bytes.len() as u32)
}

/// One message's bytes, lent for the time of a call.
pub struct View<'a> {
    pub payload: Option<&'a [u8]>,
    pub key: Option<&'a [u8]>,
    pub(crate) headers: &'a [u8],
}

impl<'a> View<'a> {
    /// Name and value of each header, in order; a null value is `None`.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let mut rest = self.headers;
        std::iter::from_fn(move || next(&mut rest))
    }

    /// The start of each header: for `header`.
    pub fn header_positions(&self) -> Vec<usize> {
        let mut rest = self.headers;
        let at = || {
            let at = self.headers.len() - rest.len();
            next(&mut rest).map(|_| at)
        };
        std::iter::from_fn(at).collect()
    }

    /// The header that starts there.
    pub fn header(&self, at: usize) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        next(&mut self.headers.get(at..)?)
    }
}

#[allow(clippy::type_complexity)]
fn next<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let name = take(rest)??;
    let value = take(rest)?;
    Some((name, value))
}

/// A length and that many bytes, as `put` wrote them; the outer `None` is the end.
#[allow(clippy::option_option)] // the end, null and bytes are three things
fn take<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let length = u32::from_ne_bytes(*length);
    let (part, tail) = tail.split_at(if length == NULL { 0 } else { length as usize });
    *rest = tail;
    Some((length != NULL).then_some(part))
}

/// Bytes that `put` adds.
pub(crate) fn put_size(part: Option<&[u8]>) -> usize {
    size_of::<u32>() + part.map_or(0, <[u8]>::len)
}

pub(crate) fn put(bytes: &mut Vec<u8>, part: Option<&[u8]>) {
    bytes.extend_from_slice(&length(part).to_ne_bytes());
    bytes.extend_from_slice(part.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_in_order_and_by_their_positions() {
        let all: [(&[u8], Option<&[u8]>); 4] =
            [(b"a", Some(b"1")), (b"none", None), (b"", Some(b"")), (b"a", Some(b"22"))];
        let mut bytes = Vec::new();
        for (name, value) in all {
            let before = bytes.len();
            put(&mut bytes, Some(name));
            put(&mut bytes, value);
            assert_eq!(put_size(Some(name)) + put_size(value), bytes.len() - before);
        }
        let view = View { payload: None, key: None, headers: &bytes };
        assert_eq!(all.to_vec(), view.headers().collect::<Vec<_>>());
        let found: Vec<_> = view.header_positions().into_iter().map(|at| view.header(at)).collect();
        assert_eq!(all.map(Some).to_vec(), found);
        assert_eq!([None, None], [view.header(bytes.len()), view.header(bytes.len() + 1)]);
    }
}
