// What Tidemill asks of Spark in Java, each with one call. Spark's code generator compiles the body of this class
// (planner.py), so it is the Java that Janino knows: no lambdas, no generic types.

public Object generate(Object[] references) { return new Planner(); }

public static class Planner {

  // -- statements ---------------------------------------------------------------------------------------------------

  /** The unresolved plan of a text, parsed with the settings of a session. */
  public org.apache.spark.sql.catalyst.plans.logical.LogicalPlan parsed(
      org.apache.spark.sql.classic.SparkSession session, String text) throws Exception {
    scala.Option before = org.apache.spark.sql.classic.SparkSession.getActiveSession();
    org.apache.spark.sql.classic.SparkSession.setActiveSession(session);
    try {
      return session.sessionState().sqlParser().parsePlan(text);
    } finally {
      if (before.isDefined()) {
        org.apache.spark.sql.classic.SparkSession.setActiveSession(
            (org.apache.spark.sql.classic.SparkSession) before.get());
      } else {
        org.apache.spark.sql.classic.SparkSession.clearActiveSession();
      }
    }
  }

  /** The class of a statement, and what it says where that is a statement that mills have, as JSON. */
  public String statement(org.apache.spark.sql.classic.SparkSession session, String text) throws Exception {
    Object plan = parsed(session, text);
    StringBuilder out = new StringBuilder("{\"class\":");
    string(plan.getClass().getSimpleName(), out);
    if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.CreateTable) {
      table((org.apache.spark.sql.catalyst.plans.logical.CreateTable) plan, out);
    } else if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.CreateMaterializedViewAsSelect) {
      org.apache.spark.sql.catalyst.plans.logical.CreateMaterializedViewAsSelect view =
          (org.apache.spark.sql.catalyst.plans.logical.CreateMaterializedViewAsSelect) plan;
      name(view.name(), out);
      out.append(",\"properties\":");
      map(((org.apache.spark.sql.catalyst.plans.logical.TableSpecBase) view.tableSpec()).properties(), out);
      out.append(",\"query\":");
      string(view.originalText(), out);
      out.append(",\"ifNotExists\":").append(view.ifNotExists());
    } else if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.SetTableProperties) {
      org.apache.spark.sql.catalyst.plans.logical.SetTableProperties change =
          (org.apache.spark.sql.catalyst.plans.logical.SetTableProperties) plan;
      altered(change.table(), out);
      out.append(",\"properties\":");
      map(change.properties(), out);
    } else if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.UnsetTableProperties) {
      org.apache.spark.sql.catalyst.plans.logical.UnsetTableProperties change =
          (org.apache.spark.sql.catalyst.plans.logical.UnsetTableProperties) plan;
      altered(change.table(), out);
      out.append(",\"keys\":");
      strings(change.propertyKeys(), out);
    }
    return out.append("}").toString();
  }

  private void table(org.apache.spark.sql.catalyst.plans.logical.CreateTable plan, StringBuilder out) {
    name(plan.name(), out);
    out.append(",\"columns\":[");
    scala.collection.Iterator columns = plan.columns().iterator();
    while (columns.hasNext()) {
      org.apache.spark.sql.catalyst.plans.logical.ColumnDefinition column =
          (org.apache.spark.sql.catalyst.plans.logical.ColumnDefinition) columns.next();
      out.append("[");
      string(column.name(), out);
      out.append(",").append(column.dataType().json()).append(",").append(column.nullable()).append("]");
      if (columns.hasNext()) out.append(",");
    }
    org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec spec =
        (org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec) plan.tableSpec();
    out.append("],\"provider\":");
    option(spec.provider(), out);
    out.append(",\"location\":");
    option(spec.location(), out);
    out.append(",\"ifNotExists\":").append(plan.ignoreIfExists()).append(",\"options\":[");
    scala.collection.Iterator options = spec.optionExpression().options().iterator();
    while (options.hasNext()) {
      scala.Tuple2 pair = (scala.Tuple2) options.next();
      org.apache.spark.sql.catalyst.expressions.Expression expression =
          (org.apache.spark.sql.catalyst.expressions.Expression) pair._2();
      Object value = null;
      if (expression instanceof org.apache.spark.sql.catalyst.expressions.Literal) {
        value = ((org.apache.spark.sql.catalyst.expressions.Literal) expression).value();
      }
      out.append("[");
      string((String) pair._1(), out);
      out.append(",");
      if (value == null || value instanceof Boolean || value instanceof Number
          && !(value instanceof scala.math.ScalaNumber) && !(value instanceof java.math.BigDecimal)) {
        out.append(value);
      } else {
        string(value.toString(), out);
      }
      out.append(",");
      string(expression.sql(), out);
      out.append("]");
      if (options.hasNext()) out.append(",");
    }
    out.append("],\"constraints\":[");
    scala.collection.Iterator constraints = spec.constraints().iterator();
    while (constraints.hasNext()) {
      Object constraint = constraints.next();
      out.append("[");
      string(constraint.getClass().getSimpleName(), out);
      out.append(",");
      if (constraint instanceof org.apache.spark.sql.catalyst.expressions.PrimaryKeyConstraint) {
        strings(((org.apache.spark.sql.catalyst.expressions.PrimaryKeyConstraint) constraint).columns(), out);
      } else {
        out.append("[]");
      }
      out.append("]");
      if (constraints.hasNext()) out.append(",");
    }
    out.append("]");
  }

  private void name(Object unresolved, StringBuilder out) {
    out.append(",\"name\":");
    strings(((org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier) unresolved).nameParts(), out);
  }

  private void altered(Object unresolved, StringBuilder out) {
    out.append(",\"name\":");
    strings(((org.apache.spark.sql.catalyst.analysis.UnresolvedTable) unresolved).multipartIdentifier(), out);
  }

  // -- queries ------------------------------------------------------------------------------------------------------

  /** Make a relation without rows known to queries; gives the id of the RDD that is its leaf. */
  public int register(org.apache.spark.sql.classic.SparkSession session, String name, String columns) {
    org.apache.spark.rdd.RDD rows = session.sparkContext().emptyRDD(
        scala.reflect.ClassTag$.MODULE$.apply(org.apache.spark.sql.catalyst.InternalRow.class));
    session.internalCreateDataFrame(rows, org.apache.spark.sql.types.StructType.fromDDL(columns), false)
        .createOrReplaceTempView(name);
    return rows.id();
  }

  /** A query, analysed. */
  public org.apache.spark.sql.execution.QueryExecution analysed(
      org.apache.spark.sql.classic.SparkSession session, String query) {
    return session.sql(query).queryExecution();
  }

  /** Whether a plan may have calls whose value its rows do not decide, or calls of functions in Python or Scala. */
  public boolean doubtful(org.apache.spark.sql.execution.QueryExecution execution) {
    org.apache.spark.sql.catalyst.plans.logical.LogicalPlan plan = execution.analyzed();
    return !plan.deterministic()
        || plan.containsPattern(org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE())
        || plan.containsPattern(org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF())
        || plan.containsPattern(org.apache.spark.sql.catalyst.trees.TreePattern.SCALA_UDF());
  }

  /** The names of the columns of a query, as JSON. */
  public String columns(org.apache.spark.sql.execution.QueryExecution execution) {
    StringBuilder out = new StringBuilder();
    strings(scala.Predef$.MODULE$.wrapRefArray(execution.analyzed().schema().fieldNames()), out);
    return out.toString();
  }

  // -- plans as JSON ------------------------------------------------------------------------------------------------

  private final java.util.HashMap names = new java.util.HashMap();
  private final java.util.HashMap types = new java.util.HashMap();

  /** As {@code plan.toJSON()}, which asks Scala's reflection, with more of what is in the plan (tree.py). */
  public String json(org.apache.spark.sql.catalyst.trees.TreeNode plan) {
    StringBuilder out = new StringBuilder();
    tree(plan, out);
    return out.toString();
  }

  private void tree(org.apache.spark.sql.catalyst.trees.TreeNode node, StringBuilder out) {
    out.append("[");
    nodes(node, out);
    out.append("]");
  }

  private void nodes(org.apache.spark.sql.catalyst.trees.TreeNode node, StringBuilder out) {
    scala.collection.immutable.Seq children = node.children();
    out.append("{\"class\":");
    string(node.getClass().getName(), out);
    out.append(",\"num-children\":").append(children.size());
    if (node instanceof org.apache.spark.sql.catalyst.expressions.Literal) {
      literal((org.apache.spark.sql.catalyst.expressions.Literal) node, out);
    } else {
      fields(node, children, out);
    }
    out.append("}");
    scala.collection.Iterator below = children.iterator();
    while (below.hasNext()) {
      out.append(",");
      nodes((org.apache.spark.sql.catalyst.trees.TreeNode) below.next(), out);
    }
  }

  private void literal(org.apache.spark.sql.catalyst.expressions.Literal literal, StringBuilder out) {
    Object value = literal.value();
    out.append(",\"value\":");
    if (value == null) {
      out.append("null");
    } else if (value instanceof Integer && literal.dataType() instanceof org.apache.spark.sql.types.DateType
        || value instanceof Long && literal.dataType() instanceof org.apache.spark.sql.types.TimestampType) {
      string(literal.toString(), out);
    } else {
      string(value.toString(), out);
    }
    out.append(",\"dataType\":").append(type(literal.dataType()));
  }

  private void fields(
      org.apache.spark.sql.catalyst.trees.TreeNode node,
      scala.collection.immutable.Seq children,
      StringBuilder out) {
    scala.collection.Iterator others = node.otherCopyArgs().iterator();
    int arity = node.productArity();
    String[] named = named(node.getClass(), (scala.Product) node, arity + node.otherCopyArgs().size());
    for (int i = 0; i < named.length; i++) {
      Object value = i < arity ? node.productElement(i) : others.next();
      if (value instanceof scala.None$) continue;
      out.append(",");
      string(named[i], out);
      out.append(":");
      if (value instanceof org.apache.spark.sql.catalyst.trees.TreeNode && children.contains(value)) {
        out.append(children.indexOf(value));
      } else if (value instanceof scala.collection.Seq && among((scala.collection.Seq) value, children)) {
        out.append("[");
        scala.collection.Iterator elements = ((scala.collection.Seq) value).iterator();
        while (elements.hasNext()) {
          out.append(children.indexOf(elements.next()));
          if (elements.hasNext()) out.append(",");
        }
        out.append("]");
      } else if (named[i].equals("evalMode") || value instanceof Character) {
        string(value.toString(), out);
      } else if (value instanceof org.apache.spark.sql.catalyst.expressions.NumericEvalContext) {
        out.append("null,\"evalMode\":");
        string(((org.apache.spark.sql.catalyst.expressions.NumericEvalContext) value).evalMode().toString(), out);
      } else if (node instanceof org.apache.spark.sql.catalyst.expressions.AttributeReference
          && value instanceof org.apache.spark.sql.types.Metadata) {
        out.append(((org.apache.spark.sql.types.Metadata) value).json());
      } else {
        value(value, out);
      }
    }
    if (node instanceof org.apache.spark.sql.execution.LogicalRDD) {
      org.apache.spark.rdd.RDD rows = ((org.apache.spark.sql.execution.LogicalRDD) node).rdd();
      out.append(",\"rddId\":").append(rows.id()).append(",\"rddName\":");
      if (rows.name() == null) out.append("null"); else string(rows.name(), out);
    } else if (node instanceof org.apache.spark.sql.catalyst.plans.logical.Generate) {
      out.append(",\"keptIds\":[");
      scala.collection.Iterator kept =
          ((org.apache.spark.sql.catalyst.plans.logical.Generate) node).requiredChildOutput().iterator();
      while (kept.hasNext()) {
        out.append(((org.apache.spark.sql.catalyst.expressions.Attribute) kept.next()).exprId().id());
        if (kept.hasNext()) out.append(",");
      }
      out.append("]");
    }
  }

  private boolean among(scala.collection.Seq values, scala.collection.immutable.Seq children) {
    scala.collection.Iterator elements = values.iterator();
    while (elements.hasNext()) {
      if (!children.contains(elements.next())) return false;
    }
    return true;
  }

  private void value(Object value, StringBuilder out) {
    if (value == null || value instanceof scala.collection.Map) {
      out.append("null");
    } else if (value instanceof Boolean || value instanceof Byte || value instanceof Short
        || value instanceof Integer || value instanceof Long) {
      out.append(value);
    } else if (value instanceof Double || value instanceof Float) {
      out.append(((Number) value).doubleValue());
    } else if (value instanceof String || value instanceof java.util.UUID) {
      string(value.toString(), out);
    } else if (value instanceof org.apache.spark.sql.types.DataType) {
      out.append(type((org.apache.spark.sql.types.DataType) value));
    } else if (value instanceof org.apache.spark.sql.types.Metadata) {
      out.append("{}");
    } else if (value instanceof Class) {
      string(((Class) value).getName(), out);
    } else if (value instanceof org.apache.spark.sql.catalyst.trees.TreeNode) {
      tree((org.apache.spark.sql.catalyst.trees.TreeNode) value, out);
    } else if (value instanceof scala.Some) {
      value(((scala.Some) value).value(), out);
    } else if (value instanceof scala.collection.Seq) {
      list((scala.collection.Seq) value, out);
    } else if (value.getClass().getName().endsWith("$")) {
      out.append("{\"object\":");
      string(value.getClass().getName(), out);
      out.append("}");
    } else if (isConverted(value)) {
      product((scala.Product) value, out);
    } else {
      out.append("null");
    }
  }

  private boolean isConverted(Object value) {
    return value instanceof org.apache.spark.sql.catalyst.expressions.ExprId
        || value instanceof org.apache.spark.sql.types.StructField
        || value instanceof scala.Tuple2
        || value instanceof org.apache.spark.sql.catalyst.AliasIdentifier
        || value instanceof org.apache.spark.sql.catalyst.plans.JoinType
        || value instanceof org.apache.spark.sql.catalyst.plans.physical.Partitioning;
  }

  private void list(scala.collection.Seq values, StringBuilder out) {
    if (!values.isEmpty() && values.head() instanceof String) {
      string(values.mkString("[", ", ", "]"), out);
      return;
    }
    scala.collection.Iterator elements = values.iterator();
    while (elements.hasNext()) {
      Object element = elements.next();
      if (!(element instanceof org.apache.spark.sql.catalyst.trees.TreeNode || element instanceof scala.collection.Seq
          || element instanceof org.apache.spark.sql.types.AbstractDataType || isConverted(element))) {
        out.append("null");
        return;
      }
    }
    out.append("[");
    elements = values.iterator();
    while (elements.hasNext()) {
      value(elements.next(), out);
      if (elements.hasNext()) out.append(",");
    }
    out.append("]");
  }

  private void product(scala.Product value, StringBuilder out) {
    String[] named = named(value.getClass(), value, value.productArity());
    out.append("{\"product-class\":");
    string(value.getClass().getName(), out);
    for (int i = 0; i < named.length; i++) {
      if (value.productElement(i) instanceof scala.None$) continue;
      out.append(",");
      string(named[i], out);
      out.append(":");
      value(value.productElement(i), out);
    }
    out.append("}");
  }

  /** The names of the parameters of a class: those of its fields, and of what it is made with besides. */
  private String[] named(Class of, scala.Product value, int count) {
    String[] found = (String[]) names.get(of);
    if (found != null) return found;
    found = new String[count];
    for (int i = 0; i < value.productArity(); i++) found[i] = value.productElementName(i);
    java.lang.reflect.Constructor[] constructors = of.getConstructors();
    for (int i = 0; i < constructors.length; i++) {
      java.lang.reflect.Parameter[] parameters = constructors[i].getParameters();
      if (parameters.length != count) continue;
      for (int j = value.productArity(); j < count; j++) found[j] = parameters[j].getName();
    }
    names.put(of, found);
    return found;
  }

  private String type(org.apache.spark.sql.types.DataType type) {
    String found = (String) types.get(type);
    if (found == null) {
      found = type.json();
      if (types.size() < 1000) types.put(type, found);
    }
    return found;
  }

  private void option(scala.Option text, StringBuilder out) {
    if (text.isDefined()) string((String) text.get(), out); else out.append("null");
  }

  private void strings(scala.collection.Seq values, StringBuilder out) {
    out.append("[");
    scala.collection.Iterator elements = values.iterator();
    while (elements.hasNext()) {
      string((String) elements.next(), out);
      if (elements.hasNext()) out.append(",");
    }
    out.append("]");
  }

  private void map(scala.collection.Map values, StringBuilder out) {
    out.append("{");
    scala.collection.Iterator pairs = values.iterator();
    while (pairs.hasNext()) {
      scala.Tuple2 pair = (scala.Tuple2) pairs.next();
      string((String) pair._1(), out);
      out.append(":");
      string((String) pair._2(), out);
      if (pairs.hasNext()) out.append(",");
    }
    out.append("}");
  }

  private void string(String text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ' || c > '~') {
        String digits = Integer.toHexString(c);
        out.append("\\u0000".substring(0, 6 - digits.length())).append(digits);
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }
}
