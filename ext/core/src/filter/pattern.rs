//! Ruby's regular expressions, if Rust's crate surely gives them the same meaning. Ruby decides about everything that
//! is not on the list here: look-around, back-references, possessive and atomic parts, Unicode properties, octal and
//! hexadecimal escapes, set operations, inline options.

use regex::Regex;
use std::iter::Peekable;
use std::str::Chars;

/// More repetitions are left to Ruby: the crate would unfold them.
const MOST_REPEATED: u32 = 1000;

pub struct Pattern {
    /// `None`: Ruby decides.
    regex: Option<Regex>,
    /// Has a `^`. In Ruby it does not match after a newline that ends the text.
    begins_lines: bool,
    /// Has a `\Z`, which in Ruby also holds before a newline that ends the text.
    ends_text: bool,
    /// Has a `\b`, for which Ruby takes other letters than ASCII's for letters.
    bounds_words: bool,
    ignores_case: bool,
}

/// Characters beyond ASCII that are ASCII letters where case is ignored: "ſ" is an s, "ß" is "ss".
const FOLDED: [char; 12] = ['ß', 'ẞ', 'ſ', '\u{212a}', 'İ', 'ﬀ', 'ﬁ', 'ﬂ', 'ﬃ', 'ﬄ', 'ﬅ', 'ﬆ'];

impl Pattern {
    /// Of `Regexp#source` and its options `i` and `m`; `x` is Ruby's.
    pub fn new(source: &str, ignore_case: bool, multiline: bool, extended: bool) -> Self {
        let rest = source.chars().peekable();
        let (begins_lines, ends_text, bounds_words) = (false, false, false);
        let mut translator =
            PatternTranslator { rest, out: String::new(), multiline, begins_lines, ends_text, bounds_words };
        // Ignored case has letters that stand for two ("ß").
        let native = !extended && (!ignore_case || source.is_ascii());
        let inherits = !ignore_case && !multiline;
        let translated = native.then(|| translator.pattern(inherits)).flatten();
        let options = if ignore_case { "(?i)" } else { "" };
        let regex = translated.and_then(|()| Regex::new(&format!("{options}{}", translator.out)).ok());
        let PatternTranslator { begins_lines, ends_text, bounds_words, .. } = translator;
        Self { regex, begins_lines, ends_text, bounds_words, ignores_case: ignore_case }
    }

    /// A text that is no UTF-8 matches nothing. `None`: Ruby decides.
    pub fn matches(&self, text: &[u8]) -> Option<bool> {
        let Ok(text) = std::str::from_utf8(text) else { return Some(false) };
        let regex = self.regex.as_ref()?;
        if !text.is_ascii() && (self.bounds_words || (self.ignores_case && text.contains(FOLDED))) {
            return None;
        }
        let matches = regex.is_match(text);
        // Our `^` holds in more places than Ruby's, our `\Z` in fewer.
        let doubtful = if matches { self.begins_lines } else { self.ends_text };
        if doubtful && text.ends_with('\n') { None } else { Some(matches) }
    }

    /// Whether Ruby decides always.
    pub fn is_foreign(&self) -> bool {
        self.regex.is_none()
    }
}

/// Whether the last item may be repeated.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Atom,
    /// The beginning, an anchor, a quantifier.
    Other,
}

struct PatternTranslator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    multiline: bool,
    begins_lines: bool,
    ends_text: bool,
    bounds_words: bool,
}

impl PatternTranslator<'_> {
    /// All of it; `None` at the first that is not surely the same. `inherits`: what `/#{other}/` writes for an `other`
    /// without options may stand inside.
    fn pattern(&mut self, inherits: bool) -> Option<()> {
        let mut depth = 0;
        let mut last = Last::Other;
        while let Some(char) = self.rest.next() {
            last = match char {
                '.' => self.atom(if self.multiline { "(?s:.)" } else { "[^\\n]" }),
                '^' => {
                    self.begins_lines = true;
                    self.anchor("(?m:^)")
                }
                '$' => self.anchor("(?m:$)"),
                '|' => self.anchor("|"),
                '(' => {
                    depth += 1;
                    self.group(inherits)?;
                    self.anchor("(?:")
                }
                ')' => {
                    depth -= 1;
                    self.atom(")")
                }
                '[' => self.class()?,
                '\\' => self.escape()?,
                '*' | '+' | '?' | '{' => self.quantifier(char, last)?,
                ']' | '}' => return None,
                plain => {
                    literal(&mut self.out, plain);
                    Last::Atom
                }
            };
        }
        (depth == 0).then_some(())
    }

    fn atom(&mut self, text: &str) -> Last {
        self.out.push_str(text);
        Last::Atom
    }

    fn anchor(&mut self, text: &str) -> Last {
        self.out.push_str(text);
        Last::Other
    }

    /// Behind the `(`: nothing, `?:`, `?<name>` or `?-mix:`.
    fn group(&mut self, inherits: bool) -> Option<()> {
        if self.rest.next_if_eq(&'?').is_none() {
            return Some(());
        }
        match self.rest.next()? {
            ':' => Some(()),
            '-' if inherits => "mix:".chars().all(|char| self.rest.next() == Some(char)).then_some(()),
            '<' => {
                self.rest.next_if(|char| char.is_ascii_alphabetic())?;
                while self.rest.next_if(|char| char.is_ascii_alphanumeric() || *char == '_').is_some() {}
                self.rest.next_if_eq(&'>').map(drop)
            }
            _ => None,
        }
    }

    /// Behind a backslash.
    fn escape(&mut self) -> Option<Last> {
        let char = self.rest.next()?;
        Some(match char {
            'A' => self.anchor("\\A"),
            'z' => self.anchor("\\z"),
            'Z' => {
                self.ends_text = true;
                self.anchor("\\z")
            }
            'b' => {
                self.bounds_words = true;
                self.anchor("(?-u:\\b)")
            }
            'd' | 'w' | 's' | 'h' => {
                let set = format!("[{}]", shorthand(char)?);
                self.atom(&set)
            }
            'D' | 'W' | 'S' | 'H' => {
                let set = format!("[^{}]", shorthand(char.to_ascii_lowercase())?);
                self.atom(&set)
            }
            other => {
                literal(&mut self.out, plain(other)?);
                Last::Atom
            }
        })
    }

    /// Behind a `[`.
    fn class(&mut self) -> Option<Last> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut members = 0;
        loop {
            match self.rest.next()? {
                ']' if members > 0 => break,
                ']' | '[' | '&' | '-' => return None,
                '\\' => {
                    let char = self.rest.next()?;
                    match shorthand(char) {
                        Some(set) => self.out.push_str(set),
                        None => self.member(plain(char)?)?,
                    }
                }
                char => self.member(char)?,
            }
            members += 1;
        }
        Some(self.atom("]"))
    }

    /// One character of a class, or a range that starts with it.
    fn member(&mut self, first: char) -> Option<()> {
        literal(&mut self.out, first);
        if self.rest.next_if_eq(&'-').is_none() {
            return Some(());
        }
        let last = match self.rest.next()? {
            '\\' => {
                let char = self.rest.next()?;
                plain(char)?
            }
            // Also a hyphen that ends the class.
            '[' | ']' | '&' | '-' => return None,
            char => char,
        };
        self.out.push('-');
        literal(&mut self.out, last);
        Some(())
    }

    /// `*`, `+`, `?`, each with or without a `?` after it, `{n}`, `{n,}`, `{n,m}`. They must follow an item that may be
    /// repeated, and is not repeated yet.
    fn quantifier(&mut self, char: char, last: Last) -> Option<Last> {
        if last != Last::Atom {
            return None;
        }
        self.out.push(char);
        if char == '{' {
            self.interval()?;
        } else if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        let again = self.rest.peek().is_some_and(|next| matches!(next, '*' | '+' | '?' | '{'));
        (!again).then_some(Last::Other)
    }

    fn interval(&mut self) -> Option<()> {
        let least = self.number()?;
        if self.rest.next_if_eq(&',').is_some() {
            self.out.push(',');
            if self.rest.peek() != Some(&'}') {
                (self.number()? >= least).then_some(())?;
            }
        }
        self.rest.next_if_eq(&'}')?;
        self.out.push('}');
        Some(())
    }

    fn number(&mut self) -> Option<u32> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        self.out.push_str(&digits);
        digits.parse().ok().filter(|number| *number <= MOST_REPEATED)
    }
}

/// Members of a class, ASCII only, as in Ruby.
fn shorthand(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\x0b\\x0c\\r ",
        'h' => "0-9A-Fa-f",
        _ => return None,
    })
}

/// The character that an escape stands for.
fn plain(escaped: char) -> Option<char> {
    Some(match escaped {
        't' => '\t',
        'n' => '\n',
        'r' => '\r',
        'f' => '\x0c',
        'v' => '\x0b',
        'a' => '\x07',
        'e' => '\x1b',
        ' ' => ' ',
        mark if mark.is_ascii_punctuation() => mark,
        _ => return None,
    })
}

fn literal(out: &mut String, char: char) {
    if char.is_ascii_punctuation() && !matches!(char, '<' | '>' | '_') {
        out.push('\\');
    }
    out.push(char);
}
