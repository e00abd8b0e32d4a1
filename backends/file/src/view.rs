//! What is on the disk, as it is at one moment.

use leasehold_core::backend::{List, Sweep};
use leasehold_core::{Name, Record, Timestamp};
use redb::{Database, ReadTransaction, ReadableDatabase as _};

use crate::error::Trouble;
use crate::tables::{self, DUE, Overdue, RECORDS};

pub(crate) struct View(ReadTransaction);

impl View {
    pub(crate) fn of(database: &Database) -> Result<Self, Trouble> {
        Ok(Self(database.begin_read()?))
    }

    pub(crate) fn read(&self, name: &Name) -> Result<Option<Record>, Trouble> {
        let value = tables::read(&self.0.open_table(RECORDS)?, name)?;
        Ok(value.map(|value| value.record))
    }

    pub(crate) fn scan(&self, request: &List) -> Result<(Vec<Record>, bool), Trouble> {
        tables::scan(&self.0.open_table(RECORDS)?, request)
    }

    pub(crate) fn overdue(
        &self,
        sweep: &Sweep,
        limit: usize,
        now: Timestamp,
    ) -> Result<Overdue, Trouble> {
        let (index, records) = (self.0.open_table(DUE)?, self.0.open_table(RECORDS)?);
        tables::overdue(&index, &records, sweep, limit, now)
    }
}
