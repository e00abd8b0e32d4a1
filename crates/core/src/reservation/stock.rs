//! How much there is of something that is reserved by units.

use super::code::Code;
use super::manager::Reservations;
use crate::backend::{CapacitySet, SetCapacity};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Units;
use crate::record::Record;

/// How often a change of the stock is tried while others change it too.
const TRIES: u32 = 64;

/// How much there is of something, and how much of it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stock {
    /// All there is, if somebody [set](Reservations::set_stock) it.
    pub units: Option<u32>,
    /// Units that are reserved for a while.
    pub reserved: u64,
    /// Units that are confirmed for good.
    pub confirmed: u64,
    /// The version of the record, for [`Reservations::set_stock_at`]; zero if nobody has touched it.
    pub version: u64,
}

impl Stock {
    fn of(record: &Record) -> Self {
        let sum = |units: &mut dyn Iterator<Item = Units>| units.map(|u| u64::from(u.get())).sum();
        Self {
            units: record.capacity,
            reserved: sum(&mut record.grants.iter().map(|grant| grant.units)),
            confirmed: sum(&mut record.claims.iter().map(|claim| claim.units)),
            version: record.version,
        }
    }

    /// Units that can be reserved.
    #[must_use]
    pub fn free(&self) -> u64 {
        u64::from(self.units.unwrap_or_default()).saturating_sub(self.reserved + self.confirmed)
    }
}

impl Reservations {
    /// How much there is of something right now.
    ///
    /// # Errors
    /// With the code of a wrong kind or value; otherwise if the store cannot count units, or fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn stock(&self, kind: &str, value: &str) -> Result<Stock> {
        self.shared().check_quantities()?;
        let record = self.record(kind, value).await?.what;
        Ok(record.as_ref().map(Stock::of).unwrap_or_default())
    }

    /// Says how much there is of something, taken or not. What is reserved or confirmed beyond that stays so.
    ///
    /// # Errors
    /// As [`stock`](Self::stock).
    ///
    /// # Cancel safety
    /// Dropped midway, it is set or not.
    pub async fn set_stock(&self, kind: &str, value: &str, units: u32) -> Result<()> {
        self.put_stock(kind, value, Some(units), None)
            .await
            .map(drop)
    }

    /// As [`set_stock`](Self::set_stock), if the record still has this version. Gives the new version.
    ///
    /// # Errors
    /// As [`stock`](Self::stock), and [`VERSION_CHANGED`](Code::VersionChanged).
    ///
    /// # Cancel safety
    /// Dropped midway, it is set or not.
    pub async fn set_stock_at(
        &self,
        kind: &str,
        value: &str,
        units: u32,
        version: u64,
    ) -> Result<u64> {
        let set = self.put_stock(kind, value, Some(units), Some(version));
        match set.await? {
            CapacitySet::Set(version) => Ok(version),
            CapacitySet::VersionChanged(now) => Err(Code::VersionChanged.error(format!(
                "the record has version {now} by now, not {version}"
            ))),
        }
    }

    /// Adds to the stock, or takes from it, and says how much there is then. It never falls below nothing.
    ///
    /// # Errors
    /// As [`stock`](Self::stock); [`INSUFFICIENT_STOCK`](Code::InsufficientStock) if more is to be taken than there
    /// is; [`INVALID_QUANTITY`](Code::InvalidQuantity) if it would be more than can be counted;
    /// [`ErrorKind::Unavailable`] if others change it all the time.
    ///
    /// # Cancel safety
    /// Dropped midway, it is changed or not.
    pub async fn change_stock(&self, kind: &str, value: &str, by: i64) -> Result<u32> {
        for _ in 0..TRIES {
            let before = self.stock(kind, value).await?;
            let after = i64::from(before.units.unwrap_or_default()).saturating_add(by);
            let after = u32::try_from(after).map_err(|_| out_of_range(before, by))?;
            let set = self.put_stock(kind, value, Some(after), Some(before.version));
            if let CapacitySet::Set(_) = set.await? {
                return Ok(after);
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("others changed the stock {TRIES} times in a row"),
        ))
    }

    /// Forgets that there is a stock: nothing can be reserved by units until one is set again.
    ///
    /// # Errors
    /// As [`stock`](Self::stock).
    ///
    /// # Cancel safety
    /// Dropped midway, it is forgotten or not.
    pub async fn clear_stock(&self, kind: &str, value: &str) -> Result<()> {
        self.put_stock(kind, value, None, None).await.map(drop)
    }

    async fn put_stock(
        &self,
        kind: &str,
        value: &str,
        units: Option<u32>,
        expect_version: Option<u64>,
    ) -> Result<CapacitySet> {
        let shared = self.shared();
        shared.check_quantities()?;
        let request = SetCapacity {
            name: shared.name(&shared.key(kind, value)?)?,
            units,
            expect_version,
        };
        shared.backend.set_capacity(&request).await
    }
}

fn out_of_range(before: Stock, by: i64) -> Error {
    let has = before.units.unwrap_or_default();
    if by < 0 {
        Code::InsufficientStock.error(format!(
            "{has} are there; {} cannot be taken",
            by.unsigned_abs()
        ))
    } else {
        Code::InvalidQuantity.error(format!("{has} and {by} are more than {}", u32::MAX))
    }
}
