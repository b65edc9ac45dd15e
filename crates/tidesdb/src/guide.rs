//! The examples of the guide, as documentation tests: a chapter each.

macro_rules! chapters {
    ($($item:ident $file:literal,)*) => {
        $(
            #[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/", $file))]
            struct $item;
        )*
    };
}

chapters! {
    FirstSteps "first-steps.md",
    Families "families.md",
    Durability "durability.md",
    Transactions "transactions.md",
    Scans "scans.md",
    Expiry "expiry.md",
    LargeValues "large-values.md",
    RangeDeletes "range-deletes.md",
    KeyOrders "key-orders.md",
    Backup "backup.md",
    Statistics "statistics.md",
}
