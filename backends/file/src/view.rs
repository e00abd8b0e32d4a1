//! Looking without changing anything.

use leasehold_core::backend::{List, Sweep};
use leasehold_core::{Name, Record, Timestamp};
use redb::ReadTransaction;
use tokio::sync::OwnedMutexGuard;

use crate::desk::Desk;
use crate::error::Trouble;
use crate::tables::{self, DUE, Overdue, RECORDS};

/// What can be seen.
pub(crate) enum View {
    /// What is on the disk; nobody is in the way.
    Committed(ReadTransaction),
    /// What was acknowledged before it is on the disk as well. Nobody changes anything meanwhile.
    Latest(OwnedMutexGuard<Desk>),
}

impl View {
    pub(crate) fn read(&self, name: &Name) -> Result<Option<Record>, Trouble> {
        let value = match self {
            Self::Committed(txn) => tables::read(&txn.open_table(RECORDS)?, name),
            Self::Latest(desk) => tables::read(&desk.txn()?.open_table(RECORDS)?, name),
        };
        let value = value?;
        Ok(value.map(|value| value.record))
    }

    pub(crate) fn scan(&self, request: &List) -> Result<(Vec<Record>, bool), Trouble> {
        match self {
            Self::Committed(txn) => tables::scan(&txn.open_table(RECORDS)?, request),
            Self::Latest(desk) => tables::scan(&desk.txn()?.open_table(RECORDS)?, request),
        }
    }

    pub(crate) fn overdue(
        &self,
        sweep: &Sweep,
        limit: usize,
        now: Timestamp,
    ) -> Result<Overdue, Trouble> {
        match self {
            Self::Committed(txn) => {
                let (index, records) = (txn.open_table(DUE)?, txn.open_table(RECORDS)?);
                tables::overdue(&index, &records, sweep, limit, now)
            }
            Self::Latest(desk) => {
                let txn = desk.txn()?;
                let (index, records) = (txn.open_table(DUE)?, txn.open_table(RECORDS)?);
                tables::overdue(&index, &records, sweep, limit, now)
            }
        }
    }
}
