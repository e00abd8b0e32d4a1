//! Several programs in one store, each in its own namespaces.

use std::sync::Arc;

use async_trait::async_trait;
use smallvec::SmallVec;

use crate::backend::outcome::Queued;
use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, Blocked, CapacitySet, Confirm, Confirmed, Event, Inbox,
    List, Names, Page, Release, Releases, Renew, RenewItem, Renewed, Seen, SetCapacity, Sweep,
    Swept, Watch, What, Withdraw, Withdrawn,
};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guarantees::Description;
use crate::lease::{Lease, Token};
use crate::name::{MAX_NAMESPACE_BYTES, Name, check_namespace};
use crate::record::Record;

/// Ends the prefix. It may not occur inside one, so that two prefixes never share a namespace.
const SEPARATOR: char = ':';

/// Puts `<prefix>:` in front of every namespace, and takes it off again in every answer and event.
///
/// Stores behind different prefixes never see each other's names. What is left of the room for a namespace is
/// [`MAX_NAMESPACE_BYTES`] less the prefix and its colon.
///
/// A [`sweep`](Backend::sweep) without a namespace settles the whole store, and counts what it did there. Only the
/// names it reports are limited to this prefix. An [`Inbox`] belongs to one view of a store: use another one for
/// another prefix.
#[derive(Debug)]
pub struct Prefix<B> {
    inner: B,
    view: View,
}

impl<B: Backend> Prefix<B> {
    /// Limits `inner` to the namespaces that begin with `prefix` and a colon.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the prefix is empty, too long, or holds a colon or NUL.
    pub fn new(inner: B, prefix: &str) -> Result<Self> {
        if prefix.is_empty() || prefix.contains(SEPARATOR) {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} is empty or holds a {SEPARATOR:?}; it needs at least one character and no {SEPARATOR:?}"
            )));
        }
        let longest = MAX_NAMESPACE_BYTES - SEPARATOR.len_utf8() - 1;
        if prefix.len() > longest {
            return Err(Error::invalid(format!(
                "the prefix has {} bytes; at most {longest} are allowed, so that a namespace fits into {MAX_NAMESPACE_BYTES}",
                prefix.len()
            )));
        }
        check_namespace(prefix)?;
        let view = View(format!("{prefix}{SEPARATOR}").into());
        Ok(Self { inner, view })
    }

    /// The backend inside.
    pub fn inner(&self) -> &B {
        &self.inner
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Backend for Prefix<B> {
    fn describe(&self) -> &Description {
        self.inner.describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        let request = Acquire {
            names: self.view.names_in(&request.names)?,
            ..request.clone()
        };
        let answer = self.inner.acquire(&request).await;
        answer
            .map_err(|error| self.view.error_out(error))
            .and_then(|acquired| self.view.acquired_out(acquired))
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let items = request.items.iter().map(|item| {
            Ok(RenewItem {
                name: self.view.name_in(&item.name)?,
                ..item.clone()
            })
        });
        let request = Renew {
            items: items.collect::<Result<_>>()?,
        };
        let answers = self.inner.renew(&request).await;
        let out = |answer: Result<Renewed>| {
            answer
                .map_err(|error| self.view.error_out(error))
                .and_then(|renewed| self.view.renewed_out(renewed))
        };
        answers
            .map(|answers| answers.into_iter().map(out).collect())
            .map_err(|error| self.view.error_out(error))
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        let request = self.view.release_in(request)?;
        let answer = self.inner.release(&request).await;
        answer.map_err(|error| self.view.error_out(error))
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        let request = Confirm {
            items: self.view.items_in(&request.items)?,
            ..request.clone()
        };
        let answer = self.inner.confirm(&request).await;
        answer
            .map_err(|error| self.view.error_out(error))
            .and_then(|confirmed| self.view.confirmed_out(confirmed))
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        let request = Withdraw {
            names: self.view.names_in(&request.names)?,
            holder: request.holder.clone(),
        };
        let answer = self.inner.withdraw(&request).await;
        answer.map_err(|error| self.view.error_out(error))
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        let request = SetCapacity {
            name: self.view.name_in(&request.name)?,
            ..request.clone()
        };
        let answer = self.inner.set_capacity(&request).await;
        answer.map_err(|error| self.view.error_out(error))
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let answer = self.inner.get(&self.view.name_in(name)?).await;
        let mut seen = answer.map_err(|error| self.view.error_out(error))?;
        if let Some(record) = &mut seen.what {
            record.name = self.view.name_out(&record.name)?;
        }
        Ok(seen)
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        let mut request = self.view.list_in(request)?;
        loop {
            let answer = self.inner.list(&request).await;
            let Seen { what: page, now } = answer.map_err(|error| self.view.error_out(error))?;
            let last = page.items.last().map(|record| record.name.clone());
            let page = self.view.page_out(page);
            match last {
                // Callers go on after the last item, so a page that has none must be the end.
                Some(last) if page.items.is_empty() && page.more => request.after = Some(last),
                _ => return Ok(Seen { what: page, now }),
            }
        }
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        let answer = self.inner.sweep(&self.view.sweep_in(request)?).await;
        let mut swept = answer.map_err(|error| self.view.error_out(error))?;
        swept.expired.retain_mut(|expired| {
            let name = self.view.strip(&expired.name);
            name.is_some_and(|name| {
                expired.name = name;
                true
            })
        });
        Ok(swept)
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        let name = name.map(|name| self.view.name_in(name)).transpose()?;
        let (view, outer) = (self.view.clone(), inbox.clone());
        let inner = Inbox::with_id(inbox.id(), move |event| {
            if let Some(event) = view.event_out(event) {
                outer.deliver(event);
            }
        });
        let answer = self.inner.watch(&inner, name.as_ref()).await;
        answer.map_err(|error| self.view.error_out(error))
    }
}

/// The prefix with its separator, and how names pass through it in either direction.
///
/// The encoding of names escapes character by character, so a common prefix keeps their order: answers still match
/// the names of the request one by one.
#[derive(Debug, Clone)]
struct View(Arc<str>);

impl View {
    fn name_in(&self, name: &Name) -> Result<Name> {
        let namespace = self
            .namespace_in(&name.namespace())
            .map_err(|error| error.with_name(name))?;
        Name::new(&namespace, name.key()).map_err(|error| error.with_name(name))
    }

    fn namespace_in(&self, namespace: &str) -> Result<String> {
        let combined = format!("{}{namespace}", self.0);
        if combined.len() > MAX_NAMESPACE_BYTES {
            return Err(Error::invalid(format!(
                "the namespace has {} bytes with the prefix {:?} in front; at most {MAX_NAMESPACE_BYTES} are allowed",
                combined.len(),
                self.0
            )));
        }
        Ok(combined)
    }

    fn names_in(&self, names: &Names) -> Result<Names> {
        if let Some(name) = names.single() {
            return Ok(Names::one(self.name_in(name)?));
        }
        let names: Result<Vec<_>> = names.as_slice().iter().map(|n| self.name_in(n)).collect();
        Names::new(names?)
    }

    fn items_in(&self, items: &[(Name, Token)]) -> Result<SmallVec<[(Name, Token); 1]>> {
        let items = items.iter();
        items
            .map(|(name, token)| Ok((self.name_in(name)?, *token)))
            .collect()
    }

    fn release_in(&self, request: &Release) -> Result<Release> {
        Ok(match request {
            Release::Grants { holder, grants } => Release::Grants {
                holder: holder.clone(),
                grants: self.items_in(grants)?,
            },
            Release::Claims {
                holder,
                claims,
                spend,
            } => Release::Claims {
                holder: holder.clone(),
                claims: self.items_in(claims)?,
                spend: *spend,
            },
            Release::Force {
                name,
                token,
                by,
                reason,
            } => Release::Force {
                name: self.name_in(name)?,
                token: *token,
                by: by.clone(),
                reason: reason.clone(),
            },
        })
    }

    fn list_in(&self, request: &List) -> Result<List> {
        let namespace = request.namespace.as_deref();
        let after = request.after.as_ref();
        Ok(List {
            namespace: namespace.map(|n| self.namespace_in(n)).transpose()?,
            namespace_prefix: self.namespace_in(&request.namespace_prefix)?,
            after: after.map(|name| self.name_in(name)).transpose()?,
            ..request.clone()
        })
    }

    fn sweep_in(&self, request: &Sweep) -> Result<Sweep> {
        let namespace = request.namespace.as_deref();
        Ok(Sweep {
            namespace: namespace.map(|n| self.namespace_in(n)).transpose()?,
            ..request.clone()
        })
    }

    /// The name as callers know it, if it is one of theirs.
    fn strip(&self, name: &Name) -> Option<Name> {
        let namespace = name.namespace();
        Name::new(namespace.strip_prefix(&*self.0)?, name.key()).ok()
    }

    /// As [`strip`](Self::strip), where the store has to answer with names it was asked for.
    fn name_out(&self, name: &Name) -> Result<Name> {
        self.strip(name).ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the store answered for a name it was not asked for",
            )
            .with_effect(Effect::Unknown)
        })
    }

    fn lease_out(&self, lease: Lease) -> Result<Lease> {
        Ok(Lease {
            name: self.name_out(&lease.name)?,
            ..lease
        })
    }

    fn blocked_out(&self, blocked: Blocked) -> Result<Blocked> {
        Ok(Blocked {
            name: self.name_out(&blocked.name)?,
            ..blocked
        })
    }

    fn queued_out(&self, queued: Queued) -> Result<Queued> {
        Ok(Queued {
            blocked: self.blocked_out(queued.blocked)?,
            ..queued
        })
    }

    fn acquired_out(&self, acquired: Acquired) -> Result<Acquired> {
        Ok(match acquired {
            Acquired::Granted(leases) => {
                let leases = leases.into_iter().map(|lease| self.lease_out(lease));
                Acquired::Granted(leases.collect::<Result<_>>()?)
            }
            Acquired::Held(blocked) => {
                let blocked = blocked.into_iter().map(|blocked| self.blocked_out(blocked));
                Acquired::Held(blocked.collect::<Result<_>>()?)
            }
            Acquired::Queued(queued) => Acquired::Queued(Box::new(self.queued_out(*queued)?)),
        })
    }

    fn renewed_out(&self, renewed: Renewed) -> Result<Renewed> {
        Ok(match renewed {
            Renewed::Renewed(lease) => Renewed::Renewed(self.lease_out(lease)?),
            Renewed::Queued(queued) => Renewed::Queued(Box::new(self.queued_out(*queued)?)),
            Renewed::Changed(lease) => Renewed::Changed(self.lease_out(lease)?),
            Renewed::NotHeld(why) => Renewed::NotHeld(why),
        })
    }

    fn confirmed_out(&self, confirmed: Confirmed) -> Result<Confirmed> {
        Ok(match confirmed {
            Confirmed::Confirmed(versions) => Confirmed::Confirmed(versions),
            Confirmed::NotHeld(name, why) => Confirmed::NotHeld(self.name_out(&name)?, why),
            Confirmed::VersionChanged(name, version) => {
                Confirmed::VersionChanged(self.name_out(&name)?, version)
            }
        })
    }

    /// Leaves out the namespace that is nothing but the prefix: callers could not name it.
    fn page_out(&self, page: Page<Record>) -> Page<Record> {
        let items = page.items.into_iter().filter_map(|record| {
            Some(Record {
                name: self.strip(&record.name)?,
                ..record
            })
        });
        Page {
            items: items.collect(),
            more: page.more,
        }
    }

    fn event_out(&self, event: Event) -> Option<Event> {
        let name = self.strip(&event.name)?;
        let what = match event.what {
            What::Granted { holder, lease } => What::Granted {
                holder,
                lease: Lease {
                    name: name.clone(),
                    ..lease
                },
            },
            What::Changed => What::Changed,
        };
        Some(Event { name, what })
    }

    /// The error in the words of the caller; the original stays below it as its source.
    fn error_out(&self, error: Error) -> Error {
        error.map_names(|name| self.strip(&name).unwrap_or(name))
    }
}
