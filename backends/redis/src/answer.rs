//! What scripts answer, and how it is read.

use leasehold_core::{Error, ErrorKind, Name, Record, Result, Timestamp, Token};
use redis::Value;

use crate::value;

/// The answer of a script: values that are read one after the other.
#[derive(Debug)]
pub(crate) struct Answer(std::vec::IntoIter<Value>);

impl Answer {
    /// A list as it is; anything else as a list of its own.
    pub(crate) fn of(value: Value) -> Self {
        let values = match value {
            Value::Array(values) => values,
            other => vec![other],
        };
        Self(values.into_iter())
    }

    /// Whether it consists of one value only.
    pub(crate) fn is_single(&self) -> bool {
        self.0.as_slice().len() == 1
    }

    /// Whether there is nothing left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// The number of the bucket whose state was lost, if that is the answer.
    pub(crate) fn lost(&self) -> Option<usize> {
        let [Value::BulkString(word), Value::Int(number)] = self.0.as_slice() else {
            return None;
        };
        let number = usize::try_from(*number).ok()?.checked_sub(1);
        number.filter(|_| word == b"lost")
    }

    fn next(&mut self) -> Result<Value> {
        self.0
            .next()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a script's answer is too short"))
    }

    /// A number, or a list inside this one.
    pub(crate) fn number_or_list(&mut self) -> Result<Result<u64, Self>> {
        Ok(match self.next()? {
            Value::Int(number) => Ok(not_negative(number)?),
            value => Err(Self::of(value)),
        })
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }

    /// Bytes, or nothing.
    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(Some(bytes)),
            Value::Nil => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "a stored text is not UTF-8").with_source(error)
        })
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        match self.next()? {
            Value::Int(number) => not_negative(number),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn count(&mut self) -> Result<usize> {
        Ok(usize::try_from(self.number()?).unwrap_or(usize::MAX))
    }

    pub(crate) fn moment(&mut self) -> Result<Timestamp> {
        self.number().map(Timestamp::from_millis)
    }

    pub(crate) fn token(&mut self) -> Result<Token> {
        self.number().map(Token::new)
    }

    pub(crate) fn record(&mut self, name: &Name) -> Result<Record> {
        value::decode(name, &self.bytes()?)
    }
}

fn not_negative(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| unexpected(&Value::Int(number)))
}

/// A word that no script answers.
pub(crate) fn unexpected_word(word: &str) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("a script answered {word:?}, which is not known here"),
    )
}

fn unexpected(value: &Value) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("a script answered something else than was expected: {value:?}"),
    )
}
