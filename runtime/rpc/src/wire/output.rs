/// A report about a program that runs on the other side. Reports follow each other as `u8 kind |
/// u32 length | bytes`, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// It has written this to its standard output.
    Out(Vec<u8>),
    /// It has written this to its standard error.
    Error(Vec<u8>),
    /// It has not read all of its input yet, so it does not accept more.
    InputPends,
    /// It has ended, with this code or by this signal (the code is then 128 more than the signal).
    Ended { code: i32, signal: Option<i32> },
}

impl Output {
    pub(crate) fn write(&self, target: &mut Vec<u8>) {
        let ended;
        let (kind, bytes) = match self {
            Self::Out(bytes) => (1, &bytes[..]),
            Self::Error(bytes) => (2, &bytes[..]),
            Self::InputPends => (3, &[][..]),
            Self::Ended { code, signal } => {
                ended = [code.to_le_bytes(), signal.unwrap_or(0).to_le_bytes()].concat();
                (4, &ended[..])
            }
        };
        target.push(kind);
        target.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        target.extend_from_slice(bytes);
    }

    /// Parses the reports of an answer; `None` if it is invalid.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut pieces = Vec::new();
        while let Some((kind, rest)) = bytes.split_first() {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (content, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
            pieces.push(match (kind, content) {
                (1, _) => Self::Out(content.to_vec()),
                (2, _) => Self::Error(content.to_vec()),
                (3, []) => Self::InputPends,
                (4, [a, b, c, d, e, f, g, h]) => Self::Ended {
                    code: i32::from_le_bytes([*a, *b, *c, *d]),
                    signal: Some(i32::from_le_bytes([*e, *f, *g, *h])).filter(|signal| *signal != 0),
                },
                _ => return None,
            });
            bytes = rest;
        }
        Some(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_go_both_ways() {
        let pieces = [
            Output::Out(b"text\n".to_vec()),
            Output::Error(Vec::new()),
            Output::InputPends,
            Output::Ended { code: -1, signal: None },
            Output::Ended { code: 139, signal: Some(11) },
        ];
        let mut bytes = Vec::new();
        pieces.iter().for_each(|piece| piece.write(&mut bytes));
        assert_eq!(Output::read(&bytes).unwrap(), pieces);
        for end in [1, 4, 7, bytes.len() - 1] {
            assert_eq!(Output::read(&bytes[..end]), None, "{end}");
        }
        assert_eq!(Output::read(&[9, 0, 0, 0, 0]), None);
    }
}
