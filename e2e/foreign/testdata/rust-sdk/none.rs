//! Nothing: the crate that is depended on is what is wanted.
