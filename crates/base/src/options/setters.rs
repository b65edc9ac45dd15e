//! Methods that set one option each.

/// Gives a struct of options one method for each field, which takes the options and gives them back
/// with the field set, so that they can be chained. Methods of the optional fields take what is
/// there.
macro_rules! setters {
    (
        $options:ident { $($field:ident: $type:ty,)* }
        optional { $($optional:ident: $content:ty,)* }
    ) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($options), "::", stringify!($field), "`].")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
            $(
                #[doc = concat!("Sets [`", stringify!($options), "::", stringify!($optional), "`].")]
                #[must_use]
                pub fn $optional(mut self, $optional: $content) -> Self {
                    self.$optional = Some($optional);
                    self
                }
            )*
        }
    };
}
pub(crate) use setters;
