//! Functions of a C library that is loaded at run time, as one structure of pointers.
//!
//! [`c_functions`] declares `Api`: a field per function, and `load`, which looks all of them up. A
//! library that lacks one is refused as a whole, so that no later call can meet a missing symbol,
//! unless the line starts with `?`: then the field is an `Option`, for functions that only newer
//! libraries have. The structure keeps the library mapped for as long as a pointer into it can be
//! used. The prototypes are written down by hand by the adapter that uses the macro, after the
//! headers of its library.

/// Declares `Api` from lines `name: "symbol" = fn(types) -> type;`, those that may be missing last.
macro_rules! c_functions {
    (
        $($name:ident: $symbol:literal = fn($($argument:ty),*) $(-> $result:ty)?;)*
        $(? $newer:ident: $name_of_newer:literal = fn($($parameter:ty),*) $(-> $returned:ty)?;)*
    ) => {
        /// The loaded functions, named as in the header without the prefix.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub(super) $newer: Option<unsafe extern "C" fn($($parameter),*) $(-> $returned)?>,)*
            _library: libloading::Library,
        }

        impl Api {
            /// Maps the library at a path and looks its functions up.
            pub(super) fn load(path: &std::path::Path) -> $crate::engine::Result<Self> {
                let failed = |error: libloading::Error| {
                    // The error itself says no more than which call failed.
                    let reason = std::error::Error::source(&error)
                        .map_or_else(|| error.to_string(), ToString::to_string);
                    $crate::engine::EngineError::from_call(&path.display().to_string(), reason)
                };
                // A bare name would be looked for in the folders of the system, not in this one.
                let place = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
                // SAFETY: the user chose the library; its initialisers have no precondition that
                // we know of.
                let library = unsafe { libloading::Library::new(&place) }.map_err(failed)?;
                let missing = |symbol: &str| {
                    $crate::engine::EngineError::from_call(
                        &path.display().to_string(),
                        format!("it has no function {symbol}: too old, or another library"),
                    )
                };
                $(
                    // SAFETY: the type is the C prototype of that symbol in the header, and the
                    // pointer is only used while `_library` of the same struct is alive.
                    let $name = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>($symbol)
                    }
                    .map_err(|_| missing($symbol))?;
                )*
                $(
                    // SAFETY: see above; a library without the symbol gives no pointer.
                    let $newer = unsafe {
                        library.get::<unsafe extern "C" fn($($parameter),*) $(-> $returned)?>(
                            $name_of_newer,
                        )
                    }
                    .ok()
                    .map(|function| *function);
                )*
                Ok(Self { $($name,)* $($newer,)* _library: library })
            }
        }
    };
}

pub(crate) use c_functions;
