//! Whether a product is known: it has a record, or a comment.

use model::{Filter, FilterKey, Order, ProductId};
use table::PageQuery;

use crate::{
    error::ApiError,
    site::{Site, UnknownProducts},
    store::StoreClients,
};

/// Refuses a product that nobody knows, if the site does not serve such products. Only a listing that has turned out empty
/// needs this: it costs up to one query of one item.
///
/// # Errors
/// [`ApiError::NoSuchProduct`]; the table's. A record that cannot be read is not taken for a missing one.
pub(crate) async fn check_known(stores: &StoreClients, site: &Site, product: &ProductId) -> Result<(), ApiError> {
    if site.settings.unknown_products == UnknownProducts::Serve || stores.has_record(product).await {
        return Ok(());
    }
    let key = FilterKey { product: product.clone(), filter: Filter::ANY };
    let any = stores.page(&PageQuery { key, order: Order::Newest, limit: 1, start: None }).await?;
    if any.comments.is_empty() && !any.cut_short { Err(ApiError::NoSuchProduct) } else { Ok(()) }
}
