//! Functions of a C library that is loaded at run time, as one structure of pointers.
//!
//! [`c_functions`] declares `Api`: a field per function, and `load`, which looks all of them up. A
//! library that lacks one is refused as a whole, so that no later call can meet a missing symbol. The
//! structure keeps the library mapped for as long as a pointer into it can be used. The prototypes are
//! written down by hand by the adapter that uses the macro, after the headers of its library.

/// Declares `Api` from lines `name: "symbol" = fn(types) -> type;`.
macro_rules! c_functions {
    ($($name:ident: $symbol:literal = fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The loaded functions, named as in the header without the prefix.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: libloading::Library,
        }

        impl Api {
            /// Maps the library at a path and looks its functions up.
            pub(super) fn load(path: &std::path::Path) -> $crate::engine::Result<Self> {
                let failed = |error: libloading::Error| {
                    $crate::engine::EngineError::from_call(&path.display().to_string(), error)
                };
                // SAFETY: the user chose the library; its initialisers have no precondition that
                // we know of.
                let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
                $(
                    // SAFETY: the type is the C prototype of that symbol in the header, and the
                    // pointer is only used while `_library` of the same struct is alive.
                    let $name = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>($symbol)
                    }
                    .map_err(failed)?;
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

pub(crate) use c_functions;
