//! The actions of transactions, and their conditions.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use model::{CommentId, ProductId, Revision, item::attribute};
use process::StoreError;
use serde::Serialize;
use serde_dynamo::Item;

use crate::{
    Table,
    error::refused,
    item::{SdkItem, primary_key, to_sdk_item},
};

/// The condition that an item is at the revision that was read.
pub(crate) const IS_REPLACED: &str = "revision = :replaced";

/// The attributes that decide whether a primary item is valid, besides its keys. They are also
/// those that a change sets, or removes where the comment has none.
pub(crate) const DECIDING: [&str; 12] = [
    attribute::CD,
    attribute::LANGUAGE,
    attribute::RATING,
    attribute::REVISION,
    attribute::COMMENT_BLOB,
    attribute::AUTO,
    attribute::SHARD,
    attribute::PCD,
    attribute::ATTRIBUTES,
    attribute::AUTHOR_ID,
    attribute::UNPUBLISHED,
    attribute::UNPUBLISHED_CD,
];

pub(crate) struct Condition {
    pub(crate) expression: String,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: SdkItem,
}

impl Condition {
    /// The attributes with these names are as they were read. The placeholders are for reserved
    /// words.
    pub(crate) fn as_read<'name>(item: &Item, names: impl IntoIterator<Item = &'name str>) -> Self {
        let mut condition = Self {
            expression: "attribute_exists(pk)".to_owned(),
            names: HashMap::new(),
            values: SdkItem::new(),
        };
        for name in names {
            condition.names.insert(format!("#{name}"), name.to_owned());
            match item.get(name) {
                None => condition
                    .expression
                    .push_str(&format!(" AND attribute_not_exists(#{name})")),
                Some(value) => {
                    condition
                        .expression
                        .push_str(&format!(" AND #{name} = :{name}"));
                    condition
                        .values
                        .insert(format!(":{name}"), value.clone().into());
                }
            }
        }
        condition
    }
}

impl Table {
    pub(crate) fn put_new<T: Serialize>(&self, item: &T) -> Result<TransactWriteItem, StoreError> {
        self.put_if(item, "attribute_not_exists(pk)", SdkItem::new())
    }

    pub(crate) fn put_if<T: Serialize>(
        &self,
        item: &T,
        condition: &str,
        values: impl Into<SdkItem>,
    ) -> Result<TransactWriteItem, StoreError> {
        let put = Put::builder()
            .table_name(self.name())
            .set_item(Some(to_sdk_item(item)?))
            .condition_expression(condition)
            .set_expression_attribute_values(
                Some(values.into()).filter(|values| !values.is_empty()),
            )
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// The update of a primary item that was read. It sets only what changes, or removes it
    /// (`None`). So an attribute that another tool adds or changes meanwhile stays. The condition
    /// covers every attribute that a change may set. The revision alone is not enough: another tool
    /// may have kept it.
    pub(crate) fn update_as_read(
        &self,
        (id, product): (&CommentId, &ProductId),
        item: &Item,
        changed: impl IntoIterator<Item = (&'static str, Option<AttributeValue>)>,
    ) -> Result<TransactWriteItem, StoreError> {
        let Condition {
            expression,
            names,
            mut values,
        } = Condition::as_read(item, DECIDING);
        let mut set = Vec::new();
        let mut removed = Vec::new();
        for (name, value) in changed {
            match value {
                Some(value) => {
                    set.push(format!("#{name} = :new_{name}"));
                    values.insert(format!(":new_{name}"), value);
                }
                None => removed.push(format!("#{name}")),
            }
        }
        let removed = if removed.is_empty() {
            String::new()
        } else {
            format!(" REMOVE {}", removed.join(", "))
        };
        let update = Update::builder()
            .table_name(self.name())
            .set_key(Some(primary_key(id, product)))
            .update_expression(format!("SET {}{removed}", set.join(", ")))
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    pub(crate) fn delete_at(
        &self,
        key: SdkItem,
        revision: Revision,
    ) -> Result<TransactWriteItem, StoreError> {
        let delete = Delete::builder()
            .table_name(self.name())
            .set_key(Some(key))
            .condition_expression(IS_REPLACED)
            .set_expression_attribute_values(Some(replaced(revision)))
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }
}

pub(crate) fn replaced(revision: Revision) -> SdkItem {
    [(
        ":replaced".to_owned(),
        AttributeValue::S(revision.to_string()),
    )]
    .into()
}
