//! Looking reservations up.

use super::code::Code;
use super::found::{Found, Remaining, ReservationStatus};
use super::id::ReservationId;
use super::key::Key;
use super::limits::check_entity;
use super::manager::Reservations;
use super::shared::Shared;
use crate::backend::{List, Seen, Status};
use crate::error::Result;
use crate::lease::Kind;
use crate::name::Name;
use crate::record::Record;

/// Which reservations to list: by default everything that is reserved or confirmed.
#[derive(Debug, Clone, Default)]
#[must_use = "a query finds nothing until it is listed"]
pub struct Query {
    kind: Option<String>,
    entity: Option<String>,
    status: Option<ReservationStatus>,
    after: Option<Key>,
    limit: usize,
}

impl Query {
    /// Everything that is reserved or confirmed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only values of this kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only what belongs to this entity.
    pub fn entity(mut self, entity: impl Into<String>) -> Self {
        self.entity = Some(entity.into());
        self
    }

    /// Only what is in this state. What has ended is remembered for a while, the latest of each key.
    pub fn status(mut self, status: ReservationStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Only what comes after this key: the last one of the page before.
    pub fn after(mut self, key: Key) -> Self {
        self.after = Some(key);
        self
    }

    /// At most this many keys, and never more than [`MAX_LIST`](crate::backend::MAX_LIST).
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    fn fits(&self, found: &Found) -> bool {
        let entity = self.entity.as_ref();
        self.status
            .map_or(found.is_active(), |status| found.status == status)
            && entity.is_none_or(|entity| found.entity.as_ref() == Some(entity))
    }
}

/// Part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPage {
    /// What was found, in the order of the keys.
    pub found: Vec<Found>,
    /// Where the next page begins; `None` if this is the last.
    pub next: Option<Key>,
}

impl Reservations {
    /// What is known about a value: what is reserved or confirmed first, then how the latest reservation ended.
    ///
    /// # Errors
    /// With the code of a wrong kind or value; otherwise if the store fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn find(&self, kind: &str, value: &str) -> Result<Option<Found>> {
        Ok(self.find_all(kind, value).await?.into_iter().next())
    }

    /// As [`find`](Self::find), by the whole key.
    ///
    /// # Errors
    /// With the code of a wrong key; otherwise if the store fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn find_key(&self, key: &str) -> Result<Option<Found>> {
        let key = Key::parse(key)?;
        self.find(key.kind(), key.value()).await
    }

    /// As [`find`](Self::find), if it is reserved or confirmed.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn find_active(&self, kind: &str, value: &str) -> Result<Option<Found>> {
        Ok(self.find(kind, value).await?.filter(Found::is_active))
    }

    /// Everything known about a value; of a stock there can be many.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn find_all(&self, kind: &str, value: &str) -> Result<Vec<Found>> {
        let Seen { what, now } = self.record(kind, value).await?;
        let found = what.as_ref().map(|record| Found::all(record, now));
        Ok(found.unwrap_or_default())
    }

    /// What is known under an id. Ids cannot be turned back into keys, so this reads the namespace page by page; ask by
    /// key where you can.
    ///
    /// # Errors
    /// With the code of a wrong id; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store cannot
    /// list; otherwise if it fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn find_id(&self, id: &str) -> Result<Option<Found>> {
        let Some(id) = ReservationId::parse(id)? else {
            return Ok(None);
        };
        let found = self.scan(|record| ReservationId::of(&record.name) == id, true);
        Ok(found.await?.into_iter().next())
    }

    /// As [`find_id`](Self::find_id), but it must be there.
    ///
    /// # Errors
    /// As [`find_id`](Self::find_id), and [`RESERVATION_NOT_FOUND`](Code::ReservationNotFound).
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn get(&self, id: &str) -> Result<Found> {
        self.find_id(id).await?.ok_or_else(|| {
            Code::ReservationNotFound.error("the store knows no reservation with this id")
        })
    }

    /// Everything known under a [short id](Key::short_id), which several keys can share.
    ///
    /// # Errors
    /// As [`find_id`](Self::find_id).
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn find_short_id(&self, id: &str) -> Result<Vec<Found>> {
        ReservationId::parse(id)?;
        let fits =
            |record: &Record| Shared::key_of(&record.name).is_some_and(|key| key.short_id() == id);
        self.scan(fits, false).await
    }

    /// Everything that belongs to an entity.
    ///
    /// # Errors
    /// With the code of a wrong entity; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store cannot
    /// list; otherwise if it fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn find_entity(&self, entity: &str) -> Result<Vec<Found>> {
        check_entity(entity)?;
        let mut all = Vec::new();
        let mut query = Query::new().entity(entity);
        loop {
            let page = self.list(&query).await?;
            all.extend(page.found);
            match page.next {
                Some(next) => query = query.after(next),
                None => return Ok(all),
            }
        }
    }

    /// One page of what the query asks for.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store cannot list; otherwise if it fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn list(&self, query: &Query) -> Result<FoundPage> {
        let mut request = self.listing()?;
        let kind = query.kind.as_ref();
        request.key_prefix = kind.map(|kind| format!("{kind}:")).unwrap_or_default();
        request.entity.clone_from(&query.entity);
        request.status = query.status.map(|status| match status {
            ReservationStatus::Reserved => Status::Held,
            ReservationStatus::Confirmed => Status::Confirmed,
            ReservationStatus::Released | ReservationStatus::Expired => Status::Ended,
        });
        request.limit = query.limit;
        let after = query.after.as_ref();
        request.after = after.map(|key| self.shared().name(key)).transpose()?;
        loop {
            let Seen { what: page, now } = self.shared().backend.list(&request).await?;
            let last_key = page
                .items
                .iter()
                .rev()
                .find_map(|r| Shared::key_of(&r.name));
            // Others may keep other things in the namespace: a page of nothing but those is not the end.
            if let (true, None, Some(last)) = (page.more, &last_key, page.items.last()) {
                request.after = Some(last.name.clone());
                continue;
            }
            let found = page.items.iter().flat_map(|record| Found::all(record, now));
            return Ok(FoundPage {
                found: found.filter(|found| query.fits(found)).collect(),
                next: last_key.filter(|_| page.more),
            });
        }
    }

    /// Whether a value is taken: reserved or confirmed.
    ///
    /// # Errors
    /// With the code of a wrong kind or value; otherwise if the store fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn is_reserved(&self, kind: &str, value: &str) -> Result<bool> {
        Ok(self.find_active(kind, value).await?.is_some())
    }

    /// How much is left of what takes a value; `None` if nothing does.
    ///
    /// # Errors
    /// As [`is_reserved`](Self::is_reserved).
    ///
    /// # Cancel safety
    /// Cancel-safe: reads only.
    pub async fn remaining(&self, kind: &str, value: &str) -> Result<Option<Remaining>> {
        let found = self.find_active(kind, value).await?;
        Ok(found.as_ref().map(Found::remaining))
    }

    pub(super) async fn record(&self, kind: &str, value: &str) -> Result<Seen<Option<Record>>> {
        let shared = self.shared();
        let name = shared.name(&shared.key(kind, value)?)?;
        shared.backend.get(&name).await
    }

    fn listing(&self) -> Result<List> {
        self.shared().check_list()?;
        let mut request = List::namespace(self.namespace());
        request.kind = Some(Kind::Reservation);
        Ok(request)
    }

    /// Everything whose record fits, ended ones included, or only the first.
    async fn scan(&self, fits: impl Fn(&Record) -> bool, only_first: bool) -> Result<Vec<Found>> {
        let mut all = Vec::new();
        for status in [None, Some(Status::Ended)] {
            let mut request = self.listing()?;
            request.status = status;
            loop {
                let Seen { what: page, now } = self.shared().backend.list(&request).await?;
                let fitting = page.items.iter().filter(|record| fits(record));
                all.extend(fitting.flat_map(|record| Found::all(record, now)));
                let last: Option<Name> = page.items.last().map(|record| record.name.clone());
                if (only_first && !all.is_empty()) || !page.more || last.is_none() {
                    break;
                }
                request.after = last;
            }
        }
        Ok(all)
    }
}
