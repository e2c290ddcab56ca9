//! The four finders. They differ only in where they look and in what a position is.
//!
//! | finder | looks at | position |
//! | --- | --- | --- |
//! | `journal` | the comments that the change journal names | an instant |
//! | `table_scan` | the items of one segment of the table, and the scores of their comments | an item's key |
//! | `index_scan` | every member and name of the page index | a cursor |
//! | `quarantine` | the comments that batches in quarantine name | a batch |

pub(crate) mod index_scan;
pub(crate) mod journal;
pub(crate) mod quarantine;
pub(crate) mod table_scan;
