//! Tokens for SASL/OAUTHBEARER: what a producer and a subscription have in common. lib/pelton/runtime/oauth.rb checked
//! them.

use crate::value::typed::{NativeData, Shared};
use crate::{convert, error};
use magnus::{Error, RHash, Ruby, Value};
use pelton_core::error::Error as CoreError;
use pelton_core::rd::Client;
use std::sync::Arc;

/// What logs in with tokens: a producer, a subscription or an admin.
pub trait TokenReceiver: Sized + 'static
where
    Arc<Self>: NativeData,
{
    const CLASS: &Shared<Arc<Self>>;
    /// Its name in errors.
    fn what(&self) -> String;
    /// Calls it for each client that it has; the last one's answer.
    fn with<R>(&self, call: impl FnMut(&Client) -> R) -> Result<R, CoreError>;
}

pub fn set_token<T: TokenReceiver>(
    ruby: &Ruby,
    this: Value,
    token: String,
    expires: i64,
    principal: String,
    extensions: RHash,
) -> Result<(), Error>
where
    Arc<T>: NativeData,
{
    let owner = T::CLASS.get(ruby, &this)?;
    let extensions = convert::options(ruby, extensions)?;
    let set =
        |client: &Client| client.set_oauth_token(&token, expires, &principal, &extensions).map_err(CoreError::from);
    owner.with(set).and_then(|done| done).map_err(|error| error::ruby(ruby, &owner.what(), error))
}

pub fn set_failure<T: TokenReceiver>(ruby: &Ruby, this: Value, reason: String) -> Result<(), Error>
where
    Arc<T>: NativeData,
{
    let owner = T::CLASS.get(ruby, &this)?;
    let refused = owner.with(|client| client.set_oauth_failure(&reason));
    match refused.map_err(|error| error::ruby(ruby, &owner.what(), error))? {
        0 => Ok(()),
        code => Err(error::ruby(ruby, &owner.what(), CoreError::code(code))),
    }
}
