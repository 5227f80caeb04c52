//! Solutions as typed columns: Arrow IPC streams and Parquet.
//!
//! A column has one nullable field, named like its variable. Its type depends on all values of the result,
//! which are therefore read twice. Its metadata describe the values:
//!
//! | values | type | `rdf.kind` | more metadata |
//! |---|---|---|---|
//! | IRIs | Utf8 | `iri` | |
//! | blank nodes | Utf8, the labels | `blank` | |
//! | literals of one datatype, all native | Boolean, Int64, Decimal128, Float32, Float64, Date32, Timestamp in µs (in UTC, if all are) | `literal` | `rdf.datatype` |
//! | other literals of one datatype | Utf8, the lexical forms | `literal` | `rdf.datatype` |
//! | strings of one language and direction | Utf8 | `literal` | `rdf.language`, `rdf.direction` |
//! | triple terms, or a mixture | Utf8, in N-Triples syntax | `term` | |
//! | none | Utf8 | `none` | |
//!
//! In Arrow, a Utf8 column whose values repeat is a dictionary of them. A value repeats within the solutions that are read
//! together, some ten thousand; each batch has its own dictionary.
//!
//! The terms can be restored from the columns, except for the lexical form of a native value: `1.50` and
//! `1.5` are the same decimal. [`super::native`] defines which values are native; values that would not be
//! exact are text.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow_ipc::writer::StreamWriter;
use oxrdf::{BaseDirection, Literal, NamedNode, Term};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use pythia_query::{Mapped, QueryError, SolutionBatch, SolutionStream, SpooledSolutions};

use super::native::{DECIMAL_DIGITS_MAX, Native, native};
use super::{WriteError, WriteReport};

/// Rows and approximate bytes of a Parquet row group, which is held in memory.
const ROW_GROUP_ROWS: usize = 1 << 17;
const ROW_GROUP_BYTES: usize = 32 << 20;

/// A column of the output.
#[derive(Clone, Debug, Default)]
struct Column {
    /// The type of its values.
    values: Values,
    /// Number of values.
    count: u64,
    /// Number of values that differ from the others of their batch.
    distinct: u64,
    /// True if repeated text may be a dictionary.
    may_be_dictionary: bool,
}

/// The common type of all values of a column.
#[derive(Clone, Debug, Default, PartialEq)]
enum Values {
    /// No value.
    #[default]
    Empty,
    Iri,
    BlankNode,
    /// Literals of one datatype.
    Literal {
        datatype: NamedNode,
        native: Option<NativeType>,
    },
    /// Strings of one language.
    Language(String, Option<BaseDirection>),
    /// Any terms.
    Term,
}

/// The type of native values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NativeType {
    Boolean,
    Integer,
    Decimal { whole_digits: u8, scale: u8 },
    Float,
    Double,
    Date,
    DateTime { utc: bool },
}

/// Writes an Arrow IPC stream.
pub(super) fn write_arrow(
    solutions: SolutionStream,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let (spooled, columns) = learn(solutions, true)?;
    let schema = schema(&spooled, &columns);
    let mut writer = StreamWriter::try_new(out, &schema).map_err(arrow_error)?;
    for_each_batch(&spooled, columns, &schema, &mut |batch| {
        writer.write(batch).map_err(arrow_error)
    })?;
    let mut out = writer.into_inner().map_err(arrow_error)?;
    out.flush()?;
    Ok(WriteReport {
        rows: spooled.rows(),
    })
}

/// Returns all solutions as batches of Arrow, with typed columns.
///
/// # Errors
/// Errors of the query.
pub fn record_batches(
    solutions: SolutionStream,
) -> Result<(SchemaRef, Vec<RecordBatch>), WriteError> {
    let (spooled, columns) = learn(solutions, true)?;
    let schema = schema(&spooled, &columns);
    let mut batches = Vec::new();
    for_each_batch(&spooled, columns, &schema, &mut |batch| {
        batches.push(batch.clone());
        Ok(())
    })?;
    Ok((schema, batches))
}

/// Writes a Parquet file.
pub(super) fn write_parquet(
    solutions: SolutionStream,
    out: impl Write + Send,
) -> Result<WriteReport, WriteError> {
    // Parquet has dictionaries of its own.
    let (spooled, columns) = learn(solutions, false)?;
    let schema = schema(&spooled, &columns);
    let mut writer = parquet_writer(out, &schema)?;
    for_each_batch(&spooled, columns, &schema, &mut |batch| {
        writer.write(batch).map_err(parquet_error)
    })?;
    let mut out = writer.into_inner().map_err(parquet_error)?;
    out.flush()?;
    Ok(WriteReport {
        rows: spooled.rows(),
    })
}

/// Writes the answer of an ASK to Arrow, as one row of one column, `boolean`.
pub(super) fn write_arrow_boolean(value: bool, out: impl Write) -> Result<WriteReport, WriteError> {
    let batch = boolean_batch(value)?;
    let mut writer = StreamWriter::try_new(out, &batch.schema()).map_err(arrow_error)?;
    writer.write(&batch).map_err(arrow_error)?;
    writer.into_inner().map_err(arrow_error)?.flush()?;
    Ok(WriteReport { rows: 1 })
}

/// Writes the answer of an ASK to Parquet, as one row of one column, `boolean`.
pub(super) fn write_parquet_boolean(
    value: bool,
    out: impl Write + Send,
) -> Result<WriteReport, WriteError> {
    let batch = boolean_batch(value)?;
    let mut writer = parquet_writer(out, &batch.schema())?;
    writer.write(&batch).map_err(parquet_error)?;
    writer.into_inner().map_err(parquet_error)?.flush()?;
    Ok(WriteReport { rows: 1 })
}

fn boolean_batch(value: bool) -> Result<RecordBatch, WriteError> {
    let field = Field::new("boolean", DataType::Boolean, false);
    let column: ArrayRef = Arc::new(BooleanArray::from(vec![value]));
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]).map_err(arrow_error)
}

fn parquet_writer<W: Write + Send>(
    out: W,
    schema: &SchemaRef,
) -> Result<ArrowWriter<W>, WriteError> {
    let properties = WriterProperties::builder()
        .set_created_by(concat!("pythia ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .build();
    ArrowWriter::try_new(out, Arc::clone(schema), Some(properties)).map_err(parquet_error)
}

fn arrow_error(error: ArrowError) -> WriteError {
    match error {
        ArrowError::IoError(_, error) => WriteError::Io(error),
        error => QueryError::Execution(error.to_string()).into(),
    }
}

fn parquet_error(error: ParquetError) -> WriteError {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => WriteError::Io(*error),
            Err(other) => QueryError::Execution(other.to_string()).into(),
        },
        error => QueryError::Execution(error.to_string()).into(),
    }
}

/// The types of the columns of some solutions.
struct Learned(Vec<Column>);

impl Mapped for Learned {
    fn bytes(&self) -> usize {
        self.0.len() * size_of::<Column>()
    }
}

/// Runs the query to its end and finds the types of its columns.
fn learn(
    solutions: SolutionStream,
    may_be_dictionary: bool,
) -> Result<(SpooledSolutions, Vec<Column>), WriteError> {
    let spooled = solutions.spool()?;
    let empty = Column {
        may_be_dictionary,
        ..Column::default()
    };
    let mut columns = vec![empty; spooled.variables().len()];
    let mut learned = spooled.mapped(|batch| {
        Learned(
            (0..batch.variables().len())
                .map(|index| Column::of(&batch, index))
                .collect(),
        )
    });
    while let Some(Learned(others)) = learned.next_part()? {
        let pairs = columns.into_iter().zip(others);
        columns = pairs.map(|(column, other)| column.join(other)).collect();
    }
    drop(learned);
    Ok((spooled, columns))
}

fn schema(spooled: &SpooledSolutions, columns: &[Column]) -> SchemaRef {
    let fields = spooled
        .variables()
        .iter()
        .zip(columns)
        .map(|(variable, column)| {
            Field::new(variable.as_str(), column.data_type(), true).with_metadata(column.metadata())
        });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The arrays of some solutions.
struct Made(RecordBatch);

impl Mapped for Made {
    fn bytes(&self) -> usize {
        self.0.get_array_memory_size()
    }
}

/// Writes all solutions. Several threads read their terms and make the arrays.
fn for_each_batch(
    spooled: &SpooledSolutions,
    columns: Vec<Column>,
    schema: &SchemaRef,
    write: &mut dyn FnMut(&RecordBatch) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let schema = Arc::clone(schema);
    let mut all = spooled.mapped(move |batch| arrays(&batch, &columns, &schema));
    let mut rows = 0;
    loop {
        let next = all.next_part();
        let Some(made) = next.map_err(|error| WriteError::cut(rows, error))? else {
            return Ok(());
        };
        let Made(batch) = made.map_err(arrow_error)?;
        write(&batch)?;
        rows += batch.num_rows() as u64;
    }
}

/// Makes arrays of solutions.
fn arrays(
    batch: &SolutionBatch,
    columns: &[Column],
    schema: &SchemaRef,
) -> Result<Made, ArrowError> {
    let arrays = columns
        .iter()
        .enumerate()
        .map(|(index, column)| column.array(batch, index));
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map(Made)
}

impl Column {
    /// Returns the column of some solutions.
    fn of(batch: &SolutionBatch, index: usize) -> Self {
        let mut column = Self::default();
        let mut is_seen = vec![false; batch.terms().len()];
        for place in (0..batch.len()).filter_map(|row| batch.place(row, index)) {
            column.count += 1;
            if !std::mem::replace(&mut is_seen[place], true) {
                column.distinct += 1;
                column.values.add(&batch.terms()[place]);
            }
        }
        column
    }

    /// Returns the column with the values of both.
    fn join(self, other: Self) -> Self {
        Self {
            values: self.values.join(other.values),
            count: self.count + other.count,
            distinct: self.distinct + other.distinct,
            may_be_dictionary: self.may_be_dictionary || other.may_be_dictionary,
        }
    }

    /// Returns whether the column is a dictionary of texts: those of a plain column would take twice the memory.
    fn is_dictionary(&self) -> bool {
        let repeats = self.count > 0 && self.distinct * 2 <= self.count;
        self.may_be_dictionary && repeats && self.values.is_text()
    }

    fn data_type(&self) -> DataType {
        match self.is_dictionary() {
            true => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            false => self.values.data_type(),
        }
    }

    fn metadata(&self) -> HashMap<String, String> {
        self.values.metadata()
    }

    /// Makes the array of a column of some solutions.
    fn array(&self, batch: &SolutionBatch, index: usize) -> Result<ArrayRef, ArrowError> {
        if !self.is_dictionary() {
            return self
                .values
                .array((0..batch.len()).map(|row| batch.term(row, index)));
        }
        // The key of each term that the column has.
        let mut keys = vec![None; batch.terms().len()];
        let mut texts = Vec::new();
        let as_term = self.values == Values::Term;
        let of_row = |row: usize| {
            let place = batch.place(row, index)?;
            Some(*keys[place].get_or_insert_with(|| {
                texts.push(text(&batch.terms()[place], as_term));
                texts.len() as i32 - 1
            }))
        };
        let keys: Int32Array = (0..batch.len()).map(of_row).collect();
        let texts: StringArray = texts.into_iter().map(Some).collect();
        Ok(Arc::new(DictionaryArray::try_new(keys, Arc::new(texts))?))
    }
}

impl Values {
    /// Adds a value.
    fn add(&mut self, term: &Term) {
        if !self.fits(term) {
            let own = std::mem::take(self);
            *self = own.join(Self::of(term));
        }
    }

    /// Returns whether a value is of this type, as far as that costs little to tell.
    fn fits(&self, term: &Term) -> bool {
        match (self, term) {
            (Self::Term, _)
            | (Self::Iri, Term::NamedNode(_))
            | (Self::BlankNode, Term::BlankNode(_)) => true,
            (Self::Literal { datatype, native }, Term::Literal(literal)) => {
                literal.language().is_none()
                    && literal.datatype() == *datatype
                    && native.is_none_or(|known| known.fits(literal))
            }
            _ => false,
        }
    }

    fn is_text(&self) -> bool {
        self.data_type() == DataType::Utf8
    }

    /// Returns the type of the values of both columns.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (own, Self::Empty) => own,
            (Self::Empty, other) => other,
            (
                Self::Literal {
                    datatype,
                    native: a,
                },
                Self::Literal {
                    datatype: other,
                    native: b,
                },
            ) if datatype == other => Self::Literal {
                datatype,
                native: a.zip(b).and_then(|(a, b)| a.join(b)),
            },
            (own, other) if own == other => own,
            _ => Self::Term,
        }
    }

    /// Returns the column type of one value.
    fn of(term: &Term) -> Self {
        match term {
            Term::NamedNode(_) => Self::Iri,
            Term::BlankNode(_) => Self::BlankNode,
            Term::Literal(literal) => match literal.language() {
                Some(language) => Self::Language(language.to_owned(), literal.direction()),
                None => Self::Literal {
                    datatype: literal.datatype().into_owned(),
                    native: native(literal.value(), literal.datatype()).map(NativeType::of),
                },
            },
            Term::Triple(_) => Self::Term,
        }
    }

    fn data_type(&self) -> DataType {
        let Self::Literal {
            native: Some(native),
            ..
        } = self
        else {
            return DataType::Utf8;
        };
        match native {
            NativeType::Boolean => DataType::Boolean,
            NativeType::Integer => DataType::Int64,
            NativeType::Decimal {
                whole_digits,
                scale,
            } => DataType::Decimal128((whole_digits + scale).max(1), *scale as i8),
            NativeType::Float => DataType::Float32,
            NativeType::Double => DataType::Float64,
            NativeType::Date => DataType::Date32,
            NativeType::DateTime { utc } => {
                DataType::Timestamp(TimeUnit::Microsecond, utc.then(|| "UTC".into()))
            }
        }
    }

    fn metadata(&self) -> HashMap<String, String> {
        let mut entries = Vec::new();
        let kind = match self {
            Self::Empty => "none",
            Self::Iri => "iri",
            Self::BlankNode => "blank",
            Self::Literal { datatype, .. } => {
                entries.push(("rdf.datatype", datatype.as_str()));
                "literal"
            }
            Self::Language(language, direction) => {
                entries.push(("rdf.language", language));
                match direction {
                    Some(BaseDirection::Ltr) => entries.push(("rdf.direction", "ltr")),
                    Some(BaseDirection::Rtl) => entries.push(("rdf.direction", "rtl")),
                    None => {}
                }
                "literal"
            }
            Self::Term => "term",
        };
        entries.push(("rdf.kind", kind));
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        entries.into_iter().map(owned).collect()
    }

    /// Makes an array of values of this column.
    fn array<'t>(
        &self,
        terms: impl Iterator<Item = Option<&'t Term>>,
    ) -> Result<ArrayRef, ArrowError> {
        let Self::Literal {
            native: Some(kind), ..
        } = self
        else {
            let as_term = *self == Self::Term;
            let text = terms.map(|term| term.map(|term| text(term, as_term)));
            return Ok(Arc::new(text.collect::<StringArray>()));
        };
        let values = terms.map(|term| match term {
            Some(Term::Literal(literal)) => native(literal.value(), literal.datatype()),
            _ => None,
        });
        kind.array(values)
    }
}

/// Returns a term in N-Triples syntax, or only the part that its column does not define.
fn text(term: &Term, as_term: bool) -> String {
    match term {
        Term::NamedNode(node) if !as_term => node.as_str().to_owned(),
        Term::BlankNode(node) if !as_term => node.as_str().to_owned(),
        Term::Literal(literal) if !as_term => literal.value().to_owned(),
        term => term.to_string(),
    }
}

impl NativeType {
    /// Returns whether a literal of the datatype has a value of this very type.
    fn fits(self, literal: &Literal) -> bool {
        native(literal.value(), literal.datatype()).is_some_and(|value| Self::of(value) == self)
    }

    fn of(value: Native) -> Self {
        match value {
            Native::Boolean(_) => Self::Boolean,
            Native::Integer(_) => Self::Integer,
            Native::Decimal(value) => Self::Decimal {
                whole_digits: value.whole_digits,
                scale: value.scale,
            },
            Native::Float(_) => Self::Float,
            Native::Double(_) => Self::Double,
            Native::Date(_) => Self::Date,
            Native::DateTime(_, utc) => Self::DateTime { utc },
        }
    }

    /// Returns the type that holds values of both types, if there is one.
    fn join(self, other: Self) -> Option<Self> {
        match (self, other) {
            (
                Self::Decimal {
                    whole_digits,
                    scale,
                },
                Self::Decimal {
                    whole_digits: other_whole,
                    scale: other_scale,
                },
            ) => {
                let (whole_digits, scale) = (whole_digits.max(other_whole), scale.max(other_scale));
                let fits = whole_digits + scale <= DECIMAL_DIGITS_MAX;
                fits.then_some(Self::Decimal {
                    whole_digits,
                    scale,
                })
            }
            _ => (self == other).then_some(self),
        }
    }

    /// Makes an array of values of this type.
    fn array(self, values: impl Iterator<Item = Option<Native>>) -> Result<ArrayRef, ArrowError> {
        macro_rules! collect {
            ($array:ty, $pattern:pat => $value:expr) => {
                values
                    .map(|value| match value {
                        Some($pattern) => Some($value),
                        _ => None,
                    })
                    .collect::<$array>()
            };
        }
        Ok(match self {
            Self::Boolean => Arc::new(collect!(BooleanArray, Native::Boolean(value) => value)),
            Self::Integer => Arc::new(collect!(Int64Array, Native::Integer(value) => value)),
            Self::Float => Arc::new(collect!(Float32Array, Native::Float(value) => value)),
            Self::Double => Arc::new(collect!(Float64Array, Native::Double(value) => value)),
            Self::Date => Arc::new(collect!(Date32Array, Native::Date(value) => value)),
            Self::DateTime { utc } => {
                let array =
                    collect!(TimestampMicrosecondArray, Native::DateTime(value, _) => value);
                Arc::new(array.with_timezone_opt(utc.then_some("UTC")))
            }
            Self::Decimal {
                whole_digits,
                scale,
            } => {
                let rescaled = collect!(Decimal128Array, Native::Decimal(value) => {
                    value.mantissa * 10_i128.pow(u32::from(scale - value.scale))
                });
                let precision = (whole_digits + scale).max(1);
                Arc::new(rescaled.with_precision_and_scale(precision, scale as i8)?)
            }
        })
    }
}
