//! The schema: whether it is the one that this version works on, and how it is brought there. Opening never migrates.

use tokio::time::Instant;
use tokio_postgres::types::Type;

use super::access;
use super::fault::{Fault, cannot_open};
use super::link::Link;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::get;
use crate::error::{Error, Result};
use crate::store::sql::postgres::{MIGRATIONS, UNINSTALL, in_schema};

/// The version that this version of bandog works on.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Whether there is such a schema, and whether bandog's tables are in it.
async fn exists(transaction: &Transaction<'_>, shared: &Shared) -> Result<(bool, bool), Fault> {
    let name = shared.options.schema.as_str();
    let rows = transaction.query(&shared.sql.schema_exists, &[(&name, Type::TEXT)]).await?;
    let row = rows.first().ok_or_else(|| Fault::broken("the catalogue returned no row".into()))?;
    Ok((get(row, "found")?, get(row, "migrated")?))
}

/// The version of the tables.
async fn applied(transaction: &Transaction<'_>, shared: &Shared) -> Result<u32, Fault> {
    let rows = transaction.query(&shared.sql.schema_version, &[]).await?;
    rows.first().map_or(Ok(0), |row| get::<i32>(row, "version")).map(i32::unsigned_abs)
}

/// Leave tables alone that this version does not know.
fn refuse_newer(shared: &Shared, version: u32) -> Result<(), Fault> {
    let newest = newest();
    if version <= newest {
        return Ok(());
    }
    Err(Fault::own(Error::SchemaMismatch {
        target: shared.target().to_owned(),
        problem: format!(
            "the tables are of version {version}, newer than this bandog knows ({newest}); use a newer bandog"
        ),
    }))
}

/// The version that is there, 0 for none. A role that may not look is refused.
async fn version(shared: &Shared, link: &mut Link) -> Result<u32, Fault> {
    let deadline = shared.deadline();
    loop {
        let version = link
            .transact(shared.patient(deadline), async |transaction| {
                let (_, migrated) = exists(transaction, shared).await?;
                if !migrated {
                    return Ok(0);
                }
                access::check(transaction, shared).await?;
                applied(transaction, shared).await
            })
            .await;
        match version {
            // Behind a pooler the session may change even before its first transaction.
            Err(Fault::Busy) if Instant::now() < deadline => {}
            version => return version,
        }
    }
}

/// Which schema of which database of which server this is.
pub(super) async fn identity(transaction: &Transaction<'_>, shared: &Shared) -> Result<Option<String>, Fault> {
    let name = shared.options.schema.as_str();
    let rows = transaction.last(&shared.sql.schema_identity, &[(&name, Type::TEXT)]).await?;
    rows.first().map_or(Ok(None), |row| get(row, "identity"))
}

/// Refuse to work on another version.
///
/// # Errors
/// `SchemaMismatch` with the command that puts it right; `CannotOpen` where the server says no.
pub(super) async fn check(shared: &Shared, link: &mut Link) -> Result<()> {
    let version = version(shared, link).await.map_err(|fault| opening(shared, fault))?;
    let newest = newest();
    let schema = &shared.options.schema;
    let remedy = match version {
        version if version == newest => return Ok(()),
        0 => format!("the schema {schema:?} has none of bandog's tables; make them with `bandog migrate`"),
        version if version < newest => format!(
            "the tables of schema {schema:?} are of version {version}, this bandog needs {newest}; run `bandog migrate`"
        ),
        version => format!(
            "the tables of schema {schema:?} are of version {version}, newer than this bandog knows ({newest}); \
             use a newer bandog. `bandog migrate` does not go back"
        ),
    };
    Err(Error::SchemaMismatch { target: shared.target().to_owned(), problem: remedy })
}

/// The version that is there, and the newest one.
pub(super) async fn status(shared: &Shared, link: &mut Link) -> Result<(u32, u32)> {
    let version = version(shared, link).await.map_err(|fault| opening(shared, fault))?;
    Ok((version, newest()))
}

/// Bring the schema to the newest version: all in one transaction, one such call at a time. Returns the versions before and
/// after.
pub(super) async fn migrate(shared: &Shared, link: &mut Link) -> Result<(u32, u32)> {
    let quoted = shared.options.schema.quoted();
    let before = link
        .transact(shared.patient(shared.deadline()), async |transaction| {
            transaction.query(&shared.sql.schema_lock, &[]).await?;
            let (schema, migrated) = exists(transaction, shared).await?;
            if !schema {
                // Only then: it takes a right that the owner of a schema need not have.
                transaction.batch(&format!("CREATE SCHEMA {quoted}")).await?;
            }
            let version = if migrated { applied(transaction, shared).await? } else { 0 };
            refuse_newer(shared, version)?;
            for migration in MIGRATIONS.iter().skip(version as usize) {
                transaction.batch(&in_schema(migration, &quoted)).await?;
            }
            Ok(version)
        })
        .await
        .map_err(|fault| opening(shared, fault))?;
    Ok((before, newest()))
}

/// Remove what the migrations made: all in one transaction. Returns the version that was there, and whether the schema is
/// gone.
pub(super) async fn uninstall(shared: &Shared, link: &mut Link) -> Result<(u32, bool)> {
    let quoted = shared.options.schema.quoted();
    link.transact(shared.patient(shared.deadline()), async |transaction| {
        transaction.query(&shared.sql.schema_lock, &[]).await?;
        let (schema, migrated) = exists(transaction, shared).await?;
        if !migrated {
            return Ok((0, !schema));
        }
        let version = applied(transaction, shared).await?;
        refuse_newer(shared, version)?;
        transaction.batch(&in_schema(UNINSTALL, &quoted)).await?;
        Ok((version, !exists(transaction, shared).await?.0))
    })
    .await
    .map_err(|fault| opening(shared, fault))
}

/// What the caller of opening or migrating is told.
fn opening(shared: &Shared, fault: Fault) -> Error {
    match fault {
        Fault::Lost(problem) => cannot_open(shared.target(), problem),
        Fault::Late => cannot_open(shared.target(), "no answer in time"),
        fault => fault.error(shared.target(), shared.options.busy_timeout),
    }
}
