//! The storage formats of weights, and their texts.

use tensor::DType;

use crate::wildcard;

/// The storage format of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Unchanged.
    Keep,
    /// A smaller float.
    Float(DType),
    /// Integers of 8 bits: in blocks if the target and the opset have them, else by column.
    Bytes {
        /// The integer type.
        dtype: DType,
    },
    /// Integers of 8 bits with a scale for each column.
    Columns {
        /// The integer type.
        dtype: DType,
    },
    /// Integers in blocks.
    Blocks {
        /// The integer type.
        dtype: DType,
        /// The number of neighbours in a column that share a scale.
        size: usize,
    },
}

/// The storage formats of weights. The first entry whose pattern matches the name applies.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    /// The patterns of names, each with formats in order of preference; the first suitable format
    /// is used. `*` matches any text, and `?` matches any character.
    pub formats: Vec<(String, Vec<Format>)>,
    /// `true` if a pattern may match nothing, because it may refer to other models of the same set.
    pub for_others: bool,
}

/// The pattern that selects all weights that are large enough.
pub const ALL: &str = "*";

/// The default number of elements that share a scale.
pub(super) const BLOCK: usize = 32;

/// The end of a format with a scale for each column.
const COLUMN: &str = ":column";

impl Format {
    /// Parses `keep`, `float16`, `int4`, `int4:64` or `int8:column`. Returns `None` for other texts.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_suffix(COLUMN) {
            let dtype = DType::from_numpy_name(name)?;
            return matches!(dtype, DType::I8 | DType::U8).then_some(Format::Columns { dtype });
        }
        let (name, size) = match text.split_once(':') {
            Some((name, size)) => (name, Some(size.parse::<usize>().ok()?)),
            None => (text, None),
        };
        // Kernels for blocks of integers support powers of two from 16 on.
        let fits = |size: &usize| size.is_power_of_two() && (16..=1024).contains(size);
        match (name, DType::from_numpy_name(name)) {
            ("keep", _) if size.is_none() => Some(Format::Keep),
            (_, Some(dtype @ (DType::F16 | DType::BF16))) if size.is_none() => {
                Some(Format::Float(dtype))
            }
            (_, Some(dtype @ (DType::I8 | DType::U8))) if size.is_none() => {
                Some(Format::Bytes { dtype })
            }
            (_, Some(dtype @ (DType::I4 | DType::U4 | DType::I8 | DType::U8))) => {
                let size = Some(size.unwrap_or(BLOCK)).filter(fits)?;
                Some(Format::Blocks { dtype, size })
            }
            _ => None,
        }
    }

    /// Returns `true` if weights become integers.
    pub fn is_integer(self) -> bool {
        !matches!(self, Format::Keep | Format::Float(_))
    }

    /// Returns the text that [`Format::parse`] accepts.
    pub fn to_text(self) -> String {
        match self {
            Format::Keep => "keep".to_owned(),
            Format::Float(dtype) | Format::Bytes { dtype } => dtype.numpy_name().to_owned(),
            Format::Columns { dtype } => format!("{}{COLUMN}", dtype.numpy_name()),
            Format::Blocks { dtype, size } => format!("{}:{size}", dtype.numpy_name()),
        }
    }
}

impl Weights {
    /// Parses formats in order of preference, such as `int4:64,float16`.
    pub fn parse_formats(text: &str) -> Option<Vec<Format>> {
        text.split(',').map(|one| Format::parse(one.trim())).collect()
    }

    /// Returns `true` if any weight may be stored as integers.
    pub fn has_integers(&self) -> bool {
        self.formats.iter().flat_map(|(_, formats)| formats).any(|format| format.is_integer())
    }

    /// Returns one pattern and its formats per line, such as `blocks.*=int4:32`, or `None` if the
    /// list is empty.
    pub fn to_text(&self) -> Option<String> {
        wildcard::to_text(&self.formats, |formats| {
            let formats: Vec<String> = formats.iter().map(|format| format.to_text()).collect();
            formats.join(",")
        })
    }

    /// Parses the text that [`Weights::to_text`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { formats: wildcard::parse(text, Self::parse_formats)?, for_others: false })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Completes "stored as".
            Format::Keep => f.write_str("it is"),
            Format::Float(dtype) | Format::Bytes { dtype } => f.write_str(dtype.numpy_name()),
            Format::Columns { dtype } => write!(f, "{} by column", dtype.numpy_name()),
            Format::Blocks { dtype, size } => {
                write!(f, "{} in blocks of {size}", dtype.numpy_name())
            }
        }
    }
}
