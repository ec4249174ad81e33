//! Integers and floats as patterns of bits.

pub(crate) mod bitcast_convert_type;
pub(crate) mod clz;
pub(crate) mod mulhi;
pub(crate) mod population_count;
pub(crate) mod reduce_precision;
pub(crate) mod shift;
pub(crate) mod total_order;
pub(crate) mod unsigned_words;
