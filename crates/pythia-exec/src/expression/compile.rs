//! Compiles the algebra's expressions to [`Node`]s.
//!
//! Parts without variables are evaluated here, once. Comparisons of a variable with a constant get the ids
//! that they accept. Operands of `&&` and `||` that need only ids come first, so that they decide rows
//! before any text is fetched.

use oxrdf::{NamedNode, Term, Variable};
use pythia_rdf::TermId;
use pythia_sparql::Statistic;
use spargebra::algebra::{Expression, Function};

use super::cast;
use super::column::Constant;
use super::compare::Comparison;
use super::context::EvaluationContext;
use super::degree::counted_end;
use super::evaluate::{Evaluator, Rows};
use super::exact_sum;
use super::exists::ExistsCompiler;
use super::id_range::IdRanges;
use super::math;
use super::node::{Call, ConstantComparison, CustomCall, IdStrategy, InIds, InList, Node};
use super::number::Arithmetic;
use super::pattern::{Pattern, has_back_reference};
use super::table::node_or_blank;
use super::value::Value;
use super::warnings::shown;
use crate::error::QueryError;

/// The maximum depth of an expression, because compiling and evaluating recurse.
const DEPTH_MAX: usize = 256;

/// Compiles an expression over these columns.
pub(crate) fn compile(
    expression: &Expression,
    columns: &[Variable],
    context: &EvaluationContext,
    exists: ExistsCompiler<'_>,
) -> Result<Node, QueryError> {
    let compiler = Compiler {
        columns,
        context,
        exists,
    };
    compiler.compile(expression, 0)
}

struct Compiler<'a> {
    columns: &'a [Variable],
    context: &'a EvaluationContext,
    exists: ExistsCompiler<'a>,
}

impl Compiler<'_> {
    fn compile(&self, expression: &Expression, depth: usize) -> Result<Node, QueryError> {
        self.context.check()?;
        if depth > DEPTH_MAX {
            return Err(QueryError::unsupported(format!(
                "an expression nested more than {DEPTH_MAX} deep"
            )));
        }
        let node = self.compile_unfolded(expression, depth + 1)?;
        if matches!(node, Node::Constant(_) | Node::Error) || !node.is_constant() {
            return Ok(node);
        }
        self.fold(&node)
    }

    fn compile_unfolded(&self, expression: &Expression, depth: usize) -> Result<Node, QueryError> {
        use Expression as E;
        let boxed = |inner: &Expression| self.compile(inner, depth).map(Box::new);
        let pair = |a: &Expression, b: &Expression| {
            Ok::<_, QueryError>(Box::new((self.compile(a, depth)?, self.compile(b, depth)?)))
        };
        let comparison = |operator, a: &Expression, b: &Expression| {
            let (a, b) = (self.compile(a, depth)?, self.compile(b, depth)?);
            Ok::<_, QueryError>(self.comparison(operator, a, b))
        };
        Ok(match expression {
            E::NamedNode(node) => self.constant(node_or_blank(node.clone()))?,
            E::Literal(literal) => self.constant(literal.clone().into())?,
            E::Variable(variable) => self.column(variable).map_or(Node::Error, Node::Variable),
            E::Bound(variable) => match self.column(variable) {
                Some(column) => Node::Bound(column),
                None => self.constant(Value::Boolean(false).into_term())?,
            },
            E::Or(..) => Node::Or(self.operands(expression, depth)?),
            E::And(..) => Node::And(self.operands(expression, depth)?),
            E::Not(inner) => match &**inner {
                E::Equal(a, b) => comparison(Comparison::NotEqual, a, b)?,
                _ => Node::Not(boxed(inner)?),
            },
            E::Equal(a, b) => comparison(Comparison::Equal, a, b)?,
            E::Less(a, b) => comparison(Comparison::Less, a, b)?,
            E::LessOrEqual(a, b) => comparison(Comparison::LessOrEqual, a, b)?,
            E::Greater(a, b) => comparison(Comparison::Greater, a, b)?,
            E::GreaterOrEqual(a, b) => comparison(Comparison::GreaterOrEqual, a, b)?,
            E::SameTerm(a, b) => Node::SameTerm(pair(a, b)?),
            E::In(needle, list) => {
                let needle = self.compile(needle, depth)?;
                self.in_list(needle, self.compile_all(list, depth)?)?
            }
            E::Add(a, b) => Node::Arithmetic(Arithmetic::Add, pair(a, b)?),
            E::Subtract(a, b) => Node::Arithmetic(Arithmetic::Subtract, pair(a, b)?),
            E::Multiply(a, b) => Node::Arithmetic(Arithmetic::Multiply, pair(a, b)?),
            E::Divide(a, b) => Node::Arithmetic(Arithmetic::Divide, pair(a, b)?),
            E::UnaryPlus(inner) => Node::Plus(boxed(inner)?),
            E::UnaryMinus(inner) => Node::Minus(boxed(inner)?),
            E::If(condition, yes, no) => Node::If(Box::new((
                self.compile(condition, depth)?,
                self.compile(yes, depth)?,
                self.compile(no, depth)?,
            ))),
            E::Coalesce(alternatives) => Node::Coalesce(self.compile_all(alternatives, depth)?),
            E::Exists(pattern) => Node::Exists((self.exists)(pattern)?),
            E::FunctionCall(Function::Custom(name), arguments) => {
                self.custom(name, self.compile_all(arguments, depth)?)?
            }
            E::FunctionCall(function, arguments) => {
                self.call(function, self.compile_all(arguments, depth)?)?
            }
        })
    }

    fn compile_all(&self, list: &[Expression], depth: usize) -> Result<Vec<Node>, QueryError> {
        list.iter().map(|item| self.compile(item, depth)).collect()
    }

    /// Compiles the operands of a chain of one logical operator, however nested. Cheap operands come first,
    /// since their order does not matter.
    fn operands(&self, chain: &Expression, depth: usize) -> Result<Vec<Node>, QueryError> {
        let is_and = matches!(chain, Expression::And(..));
        let mut operands = Vec::new();
        let mut open = vec![chain];
        while let Some(next) = open.pop() {
            match next {
                Expression::And(a, b) if is_and => open.extend([&**b, &**a]),
                Expression::Or(a, b) if !is_and => open.extend([&**b, &**a]),
                operand => operands.push(self.compile(operand, depth)?),
            }
        }
        operands.sort_by_key(|operand| !operand.is_cheap());
        Ok(operands)
    }

    fn column(&self, variable: &Variable) -> Option<usize> {
        self.columns.iter().position(|column| column == variable)
    }

    fn constant(&self, term: Term) -> Result<Node, QueryError> {
        Ok(Node::Constant(Box::new(Constant {
            id: self.context.intern(term.clone())?,
            value: term.clone().into(),
            term,
        })))
    }

    /// Evaluates a node without variables.
    fn fold(&self, node: &Node) -> Result<Node, QueryError> {
        let rows = Rows::At(&[0]);
        let column = Evaluator::new(&[], self.context).evaluate(node, rows)?;
        let id = TermId(column.into_ids(rows.len(), self.context)?[0]);
        if !id.is_bound() {
            return Ok(Node::Error);
        }
        let term = self.context.decode(&[id])?.remove(0);
        Ok(Node::Constant(Box::new(Constant {
            id,
            value: term.clone().into(),
            term,
        })))
    }

    fn comparison(&self, operator: Comparison, left: Node, right: Node) -> Node {
        let (operator, column, constant) = match (left, right) {
            (Node::Variable(column), Node::Constant(constant)) => (operator, column, constant),
            (Node::Constant(constant), Node::Variable(column)) => {
                (operator.mirrored(), column, constant)
            }
            (left, right) => return Node::Compare(operator, Box::new((left, right))),
        };
        Node::CompareConstant(Box::new(ConstantComparison {
            column,
            operator,
            kind: constant.kind(),
            strategy: strategy(operator, &constant),
            constant: *constant,
        }))
    }

    fn in_list(&self, needle: Node, list: Vec<Node>) -> Result<Node, QueryError> {
        let iri_of = |item: &Node| match item {
            Node::Constant(constant) if matches!(constant.value, Value::NamedNode(_)) => {
                Some(constant.id.0)
            }
            _ => None,
        };
        if let Node::Variable(column) = needle
            && !list.is_empty()
            && let Some(iris) = list.iter().map(iri_of).collect()
        {
            return Ok(Node::InIris(column, iris));
        }
        Ok(Node::In(Box::new(InList {
            by_id: InIds::of(&list),
            needle,
            items: list,
        })))
    }

    fn custom(&self, name: &NamedNode, mut arguments: Vec<Node>) -> Result<Node, QueryError> {
        let function = self.context.function(name).cloned();
        if let Some(function) = function.or_else(|| exact_sum::function(name.as_str())) {
            let call = CustomCall {
                function,
                arguments,
            };
            return Ok(Node::Custom(Box::new(call)));
        }
        if let Some(end) = counted_end(name.as_str()) {
            return match (&arguments[..], arguments.len()) {
                ([Node::Variable(column)], _) => Ok(Node::Degree(end, *column)),
                _ => Err(QueryError::unsupported(format!(
                    "{name} of anything but one variable that the pattern binds"
                ))),
            };
        }
        if let Some(function) = math::function(name.as_str()) {
            return match (function.arity(), arguments.len()) {
                (takes, found) if takes == found => Ok(Node::Math(function, arguments)),
                (takes, found) => Err(QueryError::unsupported_hint(
                    format!("the function {name} with {found} arguments"),
                    format!("it takes {takes}"),
                )),
            };
        }
        if Statistic::named(name.as_str()).is_some() {
            return Err(QueryError::unsupported_hint(
                format!("the aggregate {name} as written here"),
                "write its IRI in full or with a prefix, without escapes",
            ));
        }
        let Some(target) = cast::target(name.as_str()) else {
            self.context.warn(format!(
                "nothing implements the function <{}>, so calls of it are errors",
                shown(name.as_str())
            ));
            return Ok(Node::Error);
        };
        if arguments.len() != 1 {
            return Err(QueryError::unsupported(format!(
                "the cast {name} with {} arguments",
                arguments.len()
            )));
        }
        Ok(Node::Cast(target, Box::new(arguments.remove(0))))
    }

    fn call(&self, function: &Function, arguments: Vec<Node>) -> Result<Node, QueryError> {
        let Some(arity) = arity(function) else {
            return Err(QueryError::unsupported(format!("the function {function}")));
        };
        if !arity.contains(&arguments.len()) {
            return Err(QueryError::unsupported(format!(
                "{function} with {} arguments",
                arguments.len()
            )));
        }
        let flags_at = match function {
            Function::Regex => Some(2),
            Function::Replace => Some(3),
            _ => None,
        };
        if let Some(at) = flags_at {
            check_pattern(&arguments[1], arguments.get(at))?;
        }
        let pattern = flags_at.and_then(|at| constant_pattern(&arguments[1], arguments.get(at)));
        Ok(Node::Call(Box::new(Call {
            function: function.clone(),
            arguments,
            pattern,
        })))
    }
}

/// Rejects patterns that cannot be matched in linear time.
fn check_pattern(pattern: &Node, flags: Option<&Node>) -> Result<(), QueryError> {
    let text = |node: &Node| match node {
        Node::Constant(constant) => constant.value.as_simple_string().map(str::to_owned),
        _ => None,
    };
    let is_literal = flags
        .and_then(text)
        .is_some_and(|flags| flags.contains('q'));
    if !is_literal && text(pattern).is_some_and(|pattern| has_back_reference(&pattern)) {
        return Err(QueryError::unsupported_hint(
            "a back-reference in a regular expression",
            "patterns are matched in linear time, which back-references do not allow",
        ));
    }
    Ok(())
}

/// Returns the pattern of constant arguments. The outer `None` means that they are not constant, the inner
/// one that they are not a pattern.
fn constant_pattern(pattern: &Node, flags: Option<&Node>) -> Option<Option<Pattern>> {
    let text = |node: &Node| match node {
        Node::Constant(constant) => Some(constant.value.as_simple_string().map(str::to_owned)),
        _ => None,
    };
    let pattern = text(pattern)?;
    let flags = match flags {
        None => Some(String::new()),
        Some(flags) => text(flags)?,
    };
    Some(
        pattern
            .zip(flags)
            .and_then(|(pattern, flags)| Pattern::compile(&pattern, &flags)),
    )
}

/// Returns the number of arguments that a function takes; `None` for functions that SPARQL does not define.
#[allow(
    unreachable_patterns,
    reason = "the parser has one more function if another crate of the build turns it on"
)]
fn arity(function: &Function) -> Option<std::ops::RangeInclusive<usize>> {
    use Function as F;
    Some(match function {
        F::Rand | F::Now | F::Uuid | F::StrUuid => 0..=0,
        F::BNode => 0..=1,
        F::Str
        | F::Lang
        | F::Datatype
        | F::Iri
        | F::Abs
        | F::Ceil
        | F::Floor
        | F::Round
        | F::StrLen
        | F::UCase
        | F::LCase
        | F::EncodeForUri
        | F::Year
        | F::Month
        | F::Day
        | F::Hours
        | F::Minutes
        | F::Seconds
        | F::Timezone
        | F::Tz
        | F::Md5
        | F::Sha1
        | F::Sha256
        | F::Sha384
        | F::Sha512
        | F::IsIri
        | F::IsBlank
        | F::IsLiteral
        | F::IsNumeric
        | F::Subject
        | F::Predicate
        | F::Object
        | F::IsTriple
        | F::LangDir
        | F::HasLang
        | F::HasLangDir => 1..=1,
        F::LangMatches
        | F::Contains
        | F::StrStarts
        | F::StrEnds
        | F::StrBefore
        | F::StrAfter
        | F::StrLang
        | F::StrDt => 2..=2,
        F::SubStr | F::Regex => 2..=3,
        F::Triple | F::StrLangDir => 3..=3,
        F::Replace => 3..=4,
        F::Concat => 0..=usize::MAX,
        F::Custom(_) => return None,
        _ => return None,
    })
}

/// Chooses how to compare a column with a constant.
fn strategy(operator: Comparison, constant: &Constant) -> IdStrategy {
    let equality = matches!(operator, Comparison::Equal | Comparison::NotEqual);
    match &constant.value {
        Value::NamedNode(_) | Value::LangString { .. } if equality => IdStrategy::SameId,
        value => IdRanges::new(operator, value).map_or(IdStrategy::Each, IdStrategy::Ranges),
    }
}
