//! Serde forms of shared values: each is written in full where it is used.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a value.
pub(crate) fn serialize<T, S>(value: &Arc<T>, to: S) -> Result<S::Ok, S::Error>
where
    T: Serialize + ?Sized,
    S: Serializer,
{
    (**value).serialize(to)
}

/// Reads a value.
pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Arc<T>, D::Error>
where
    T: ?Sized,
    Box<T>: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Box::<T>::deserialize(from).map(Arc::from)
}

/// Forms of values that may be missing.
pub(crate) mod optional {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a value, if there is one.
    pub(crate) fn serialize<T, S>(value: &Option<Arc<T>>, to: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize,
        S: Serializer,
    {
        value.as_deref().serialize(to)
    }

    /// Reads a value, if there is one.
    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<Arc<T>>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Option::<T>::deserialize(from)?.map(Arc::new))
    }
}
